-- names: how keys of the ledger and of Redis are made from one another.
-- A party is `<root>|<profile>`, a lane `<queue>|<party>`; a root never holds a `|`.
local call, P = redis.call, KEYS[1]

-- "build:<root>:<hex>" -> "<root>", "b<hex>".  The short id stands for the key where the root is
-- known already: a set of short members stays a listpack, at a third of the memory.
local function split(key)
  local kind, root, hex = string.match(key, "^([bi])%l+:(.+):(%x+)$")
  if kind then return root, kind .. hex end
end

local function key_of(root, id)
  return (string.sub(id, 1, 1) == "b" and "build:" or "ingest:") .. root .. ":" .. string.sub(id, 2)
end

local function is_build(id)
  return string.sub(id, 1, 1) == "b"
end

-- All fields of a job as a table of strings; empty when there is none, or no hash in its place.
local function read_job(key)
  local flat, job = redis.pcall("HGETALL", P .. "job:" .. key), {}
  for i = 1, #flat, 2 do job[flat[i]] = flat[i + 1] end
  return job
end

-- Some of them, in order; none where there is no hash.
local function read_fields(key, ...)
  local found = redis.pcall("HMGET", P .. "job:" .. key, ...)
  return unpack(found.err and {} or found)
end

-- Somebody took the job's hash away, or fields of it: no transition may trip over it, as it would do so again
-- and again, and all tenants with it.
local function is_broken(job)
  local state = job.state
  if not (state and job.queue and job.profile and job.due and job.first and job.last) then return true end
  if state == "waiting" or state == "parked" then return not job.delay end
  if state == "queued" or state == "running" then
    return not (job.delay and job.token and job.claimed and (state == "queued" or job.begun))
  end
  return false
end

-- What is kept beside a live job: coverage, scope and envelope, a line each.  The envelope would turn
-- the job's hash from a listpack into a table of four times its size.
local function read_text(root, id)
  local text = redis.pcall("HGET", P .. "text:" .. root, id)
  if type(text) ~= "string" then text = "\n\n" end
  return string.match(text, "^([^\n]*)\n([^\n]*)\n(.*)$")
end

-- An ingest's scope is in its hash too: its text may be a megabyte.
local function scope_of(root, id, job)
  if job.scope then return job.scope end
  local _, scope = read_text(root, id)
  return scope
end
