-- accept: one job into the ledger, merged with what is owed under its key (the table of merging).

-- Writes so often that what a batch shares is written once.
local seen_lanes = {}

local function note_party(queue, root, profile, by_host, now)
  local lane = queue .. "|" .. root .. "|" .. profile
  if seen_lanes[lane] then return end
  seen_lanes[lane] = true
  local party = root .. "|" .. profile
  if call("SADD", P .. "lanes:" .. root, queue .. "|" .. profile) == 1 then
    call("SADD", P .. "queues", queue)
    call("ZADD", P .. "roots", "NX", 0, party)
  end
  if by_host then call("ZADD", P .. "active", now, party) end
end

local function accept(j, now, max_wait, by_host)
  local root, id = split(j.key)
  local name, party = P .. "job:" .. j.key, root .. "|" .. j.profile
  local build = is_build(id)
  local delay = build and j.delay or 0
  local found = call("HMGET", name, "state", "due", "first", "delay", "nb", "queue", "rfirst", "rdelay")
  local state = found[1]
  local live = state == "waiting" or state == "queued" or state == "running" or state == "parked"
  -- A live job stays in the queue it is in, whatever the routes say since.
  local queue = live and found[6] or j.queue
  note_party(queue, root, j.profile, by_host, now)
  count_total("enqueued", queue, j.profile)
  if j.batch ~= "" then
    call("SADD", P .. "batch:" .. j.batch, j.key)
    call("PEXPIRE", P .. "batch:" .. j.batch, 604800000)
  end

  if state == "queued" or state == "running" then
    if not build then
      call("HINCRBY", name, "merged", 1)
      call("HSET", name, "last", now)
      count_total("merged", queue, j.profile)
      return "merged", tonumber(found[2])
    end
    local rfirst, rdelay = tonumber(found[7]) or now, math.min(tonumber(found[8]) or delay, delay)
    call("HSET", name, "rfirst", rfirst, "rlast", now, "rdelay", rdelay)
    call("HINCRBY", name, "rcount", 1)
    if found[7] then count_total("merged", queue, j.profile) end
    return "rerun", math.max(tonumber(found[5]) or 0, math.min(rfirst + max_wait, now + rdelay))
  end

  if live then
    local due = tonumber(found[2])
    call("HINCRBY", name, "merged", 1)
    call("HSET", name, "last", now)
    count_total("merged", queue, j.profile)
    if not build then return "merged", due end
    local least = math.min(tonumber(found[4]), delay)
    local later = math.max(tonumber(found[5]) or 0, math.min(tonumber(found[3]) + max_wait, now + least))
    call("HSET", name, "delay", least, "due", later)
    if state == "parked" then
      call("ZADD", P .. "parked:" .. queue .. "|" .. party, later, id)
    elseif later ~= due then
      call("ZADD", P .. "due:" .. queue .. "|" .. party, later, id)
      local head = tonumber(call("ZSCORE", P .. "heads:" .. queue, party))
      if head == due or later < head then place(queue, party) end
    end
    return "merged", later
  end

  -- Unknown, dead or over: a new series.  What was served before stays known to whoever waits for it.
  local due = now + delay
  local served = {}
  if state then
    served = call("HMGET", name, "served", "srun")
    if state == "dead" and call("ZREM", P .. "dead", j.key) == 1 then
      move_count(found[6], j.profile, "dead", nil)
    end
    call("DEL", name)
  end
  call("HSET", name, "state", "waiting", "queue", j.queue, "profile", j.profile,
    "due", due, "first", now, "last", now, "delay", delay)
  if served[1] then call("HSET", name, "served", served[1], "srun", served[2]) end
  if j.batch ~= "" then call("HSET", name, "batch", j.batch) end
  if not build then call("HSET", name, "scope", j.scope) end
  call("HSET", P .. "text:" .. root, id, j.coverage .. "\n" .. j.scope .. "\n" .. j.envelope)
  if is_wide(j.coverage) then
    call("HSET", name, "coverage", j.coverage)
    index_wide(party, j.coverage, id)
  end
  put(queue, party, id, due)
  move_count(queue, j.profile, nil, "waiting")
  return "new", due
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
