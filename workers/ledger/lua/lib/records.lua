-- records: the history, and what is left of a job that is over.
-- history  zset  one run as JSON, by number; the newest history_limit of them
-- A job that is over keeps its hash, without text, until the history forgets its last entry.

local REMEMBERED = { "queue", "profile", "due", "first", "merged", "attempts", "losses", "worker", "token",
  "batch", "served", "srun" }

local function entry_of(key, scope, job, outcome, now, more)
  local started = job.state == "running" and job.begun or now
  local entry = {
    key = key, scope = scope, profile = job.profile, queue = job.queue, outcome = outcome,
    token = tonumber(job.token), attempts = tonumber(job.attempts) or 0,
    merged = (tonumber(job.merged) or 0), waited = math.max(0, started - job.first), ran = now - started,
    lag = math.max(0, started - job.due), worker = job.state == "running" and job.worker or nil, finished = now,
  }
  for name, value in pairs(more) do entry[name] = value end
  return entry
end

-- The oldest entries go, and with each the job that ended with it and was not enqueued again.
-- `most` at a time; a lowered limit is reached step by step, two going for one that comes.
local function forget_oldest(limit, most)
  local excess = call("ZCARD", P .. "history") - limit
  if excess <= 0 then return end
  local gone = call("ZPOPMIN", P .. "history", math.min(excess, most))
  for i = 1, #gone, 2 do
    local entry = cjson.decode(gone[i])
    local name = P .. "job:" .. entry.key
    local state, last = read_fields(entry.key, "state", "history")
    local over = state == "done" or state == "cancelled" or state == "folded"
      or (state == "dead" and not call("ZSCORE", P .. "dead", entry.key))
    if over and last == gone[i + 1] then call("DEL", name) end
    count_total("history_evicted", entry.queue, entry.profile)
  end
end

-- Returns the entry's number.
local function chronicle(entry, limit)
  local number = call("HINCRBY", P .. "counter", "history", 1)
  entry.number = number
  call("ZADD", P .. "history", number, cjson.encode(entry))
  forget_oldest(limit, 2)
  return number
end

-- Its text and its place among the wide ones go; the dead keep theirs for a retry.
local function drop_text(root, id, job)
  redis.pcall("HDEL", P .. "text:" .. root, id)
  if job.coverage then unindex_wide(root .. "|" .. job.profile, job.coverage, id) end
end

-- The job is over; `more` is what to remember of its end besides, as field, value, ...
local function finish(key, root, id, job, state, number, now, ...)
  drop_text(root, id, job)
  local name, fields = P .. "job:" .. key, { ... }
  local function add(field, value)
    fields[#fields + 1] = field
    fields[#fields + 1] = value
  end
  add("state", state)
  add("history", number)
  add("ended", now)
  add("last", job.rlast or job.last)
  for _, field in ipairs(REMEMBERED) do
    if job[field] then add(field, job[field]) end
  end
  call("DEL", name)
  call("HSET", name, unpack(fields))
end
