-- accept: one job into the ledger, merged with what is owed under its key (the table of merging).
local BATCH_LIFE = 604800000

-- Writes that a batch shares are made once.
local noted = {}

local function note_lane(queue, root, profile)
  local lane = queue .. "|" .. root .. "|" .. profile
  if noted[lane] then return end
  noted[lane] = true
  if call("SADD", P .. "lanes:" .. root, queue .. "|" .. profile) == 1 then
    call("SADD", P .. "queues", queue)
    call("ZADD", P .. "roots", "NX", 0, root .. "|" .. profile)
  end
end

local function note_active(party, now)
  if noted[party] then return end
  noted[party] = true
  call("ZADD", P .. "active", now, party)
end

local function merge_in_flight(j, name, job, now, max_wait)
  if not is_build(j.id) then
    call("HSET", name, "last", now, "merged", job.merged + 1)
    count_total("merged", job.queue, j.profile)
    return "merged", job.due
  end
  local found = call("HMGET", name, "rfirst", "rdelay", "rcount")
  local rfirst, rdelay = tonumber(found[1]) or now, math.min(tonumber(found[2]) or j.delay, j.delay)
  call("HSET", name, "rfirst", rfirst, "rlast", now, "rdelay", rdelay, "rcount", (tonumber(found[3]) or 0) + 1)
  count_total(found[1] and "merged" or "rerun", job.queue, j.profile)
  return "rerun", math.max(job.nb, math.min(rfirst + max_wait, now + rdelay))
end

local function merge_waiting(j, party, name, job, now, max_wait)
  count_total("merged", job.queue, j.profile)
  if not is_build(j.id) then
    call("HSET", name, "last", now, "merged", job.merged + 1)
    return "merged", job.due
  end
  local delay = math.min(job.delay, j.delay)
  local due = math.max(job.nb, math.min(job.first + max_wait, now + delay))
  call("HSET", name, "last", now, "merged", job.merged + 1, "delay", delay, "due", due)
  if job.state == "parked" then
    call("ZADD", P .. "parked:" .. job.queue .. "|" .. party, due, j.id)
  elseif due ~= job.due then
    move(job.queue, party, j.id, job.due, due)
  end
  return "merged", due
end

-- Unknown, dead or over: a new series.  What was served before stays known to whoever waits for it.
local function begin_series(j, root, party, name, job, now)
  local due = now + j.delay
  local fields = { "state", "waiting", "queue", j.queue, "profile", j.profile, "due", due, "first", now,
    "last", now, "delay", j.delay }
  local function add(field, value)
    fields[#fields + 1] = field
    fields[#fields + 1] = value
  end
  if job.state then
    if job.state == "dead" and call("ZREM", P .. "dead", j.key) == 1 then
      move_count(job.queue, j.profile, "dead", nil)
    end
    local served, run = unpack(call("HMGET", name, "served", "srun"))
    if served then add("served", served) add("srun", run) end
    call("DEL", name)
  end
  if j.batch ~= "" then add("batch", j.batch) end
  if not is_build(j.id) then add("scope", j.scope) end
  if is_wide(j.coverage) then
    add("coverage", j.coverage)
    index_wide(party, j.coverage, j.id)
  end
  call("HSET", name, unpack(fields))
  call("HSET", P .. "text:" .. root, j.id, j.coverage .. "\n" .. j.scope .. "\n" .. j.envelope)
  -- A party with waiting jobs has its lane noted.
  if not put(j.queue, party, j.id, due) then note_lane(j.queue, root, j.profile) end
  move_count(j.queue, j.profile, nil, "waiting")
  count_total("new", j.queue, j.profile)
  return "new", due
end

local function accept(j, now, max_wait, by_host)
  local root, id = split(j.key)
  local name, party = P .. "job:" .. j.key, root .. "|" .. j.profile
  j.id = id
  if not is_build(id) then j.delay = 0 end
  if by_host then note_active(party, now) end
  if j.batch ~= "" then
    for name, member in pairs({ ["batch:" .. j.batch] = j.key, ["batches:" .. root] = j.batch }) do
      call("SADD", P .. name, member)
      call("PEXPIRE", P .. name, BATCH_LIFE)
    end
  end
  -- Not the whole hash: this is the script that hosts wait for.
  local found = redis.pcall("HMGET", name, "state", "queue", "due", "first", "delay", "nb", "merged")
  local job = {
    state = found[1], queue = found[2], due = tonumber(found[3]), first = tonumber(found[4]),
    delay = tonumber(found[5]), nb = tonumber(found[6]) or 0, merged = tonumber(found[7]) or 0,
  }
  local is_over = job.state == "done" or job.state == "cancelled" or job.state == "folded" or job.state == "dead"
  if not is_over and not (job.state and job.queue and job.due and job.first and job.delay) then
    if found.err or found[1] or found[2] or found[3] then call("DEL", name) end
    job = {}
  end
  -- A live job stays in the queue it is in, whatever the routes say since.
  if job.state == "waiting" or job.state == "parked" then
    return merge_waiting(j, party, name, job, now, max_wait)
  elseif job.state == "queued" or job.state == "running" then
    return merge_in_flight(j, name, job, now, max_wait)
  end
  return begin_series(j, root, party, name, job, now)
end

-- ARGV[at] onwards, eight to a job -> the jobs, or an error before anything is written.
local function parse_jobs(at, root)
  local jobs = {}
  for i = at, #ARGV, 8 do
    local j = {
      key = ARGV[i], queue = ARGV[i + 1], profile = ARGV[i + 2], delay = tonumber(ARGV[i + 3]),
      scope = ARGV[i + 4], coverage = ARGV[i + 5], batch = ARGV[i + 6], envelope = ARGV[i + 7],
    }
    local its_root = split(j.key)
    if not its_root or not j.envelope or not j.delay or j.delay < 0 then
      return nil, redis.error_reply("malformed job")
    end
    if string.find(j.queue, "|", 1, true) then return nil, redis.error_reply("a queue's name holds no |") end
    if root and its_root ~= root then return nil, redis.error_reply("a follow-up is of another root") end
    jobs[#jobs + 1] = j
  end
  return jobs
end
