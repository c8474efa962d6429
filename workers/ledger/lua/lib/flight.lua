-- flight: how a job leaves the air, from queued or running, on any way but success.

-- Its lease is void and its root's slot free; the job's hash is its caller's to write.
local function leave_flight(key, root, job)
  call("ZREM", P .. job.state .. ":" .. job.queue, key)
  move_count(job.queue, job.profile, job.state, nil)
  free_slot(root, key)
end

-- When the next run is due, given the enqueues since the claim; without any, when this one was.
-- `served_none`: no run happened, so the series goes on with its own first enqueue.
local function next_series(job, served_none, max_wait)
  local count = tonumber(job.rcount) or 0
  if count == 0 then
    return { due = tonumber(job.due), first = job.first, last = job.last, delay = job.delay, merged = job.merged or 0 }
  end
  local first = tonumber(served_none and job.first or job.rfirst)
  local delay = tonumber(job.rdelay)
  if served_none then delay = math.min(delay, tonumber(job.delay)) end
  return {
    due = math.min(first + max_wait, tonumber(job.rlast) + delay),
    first = first, last = job.rlast, delay = delay, merged = (tonumber(job.merged) or 0) + count,
  }
end

-- Out of the air, back to waiting or parked.  `changes` are further fields, `nb` among them.
local function go_back(key, root, id, job, state, series, changes, now)
  local name = P .. "job:" .. key
  local due = math.max(series.due, changes.nb or tonumber(job.nb) or 0)
  local fields = {
    "state", state, "due", due, "first", series.first, "last", series.last,
    "delay", series.delay, "merged", series.merged,
  }
  for field, value in pairs(changes) do
    fields[#fields + 1] = field
    fields[#fields + 1] = value
  end
  call("HSET", name, unpack(fields))
  call("HDEL", name, "rfirst", "rlast", "rdelay", "rcount", "forced")
  leave_flight(key, root, job)
  if state == "parked" then
    park(job.queue, root, job.profile, id, due, now)
  else
    put(job.queue, root .. "|" .. job.profile, id, due)
    move_count(job.queue, job.profile, nil, "waiting")
  end
  return due
end

-- Out of the air into a series of its own, for the enqueues since the claim that the run does not serve.
-- More fields to set follow as field, value, ...
local function start_over(key, root, id, job, max_wait, ...)
  local name = P .. "job:" .. key
  local due = math.min(tonumber(job.rfirst) + max_wait, tonumber(job.rlast) + tonumber(job.rdelay))
  call("HSET", name, "state", "waiting", "due", due, "first", job.rfirst, "last", job.rlast,
    "delay", job.rdelay, "merged", tonumber(job.rcount) - 1, ...)
  call("HDEL", name, "rfirst", "rlast", "rdelay", "rcount", "forced", "attempts", "losses", "nb", "newer",
    "ekind", "error")
  leave_flight(key, root, job)
  put(job.queue, root .. "|" .. job.profile, id, due)
  move_count(job.queue, job.profile, nil, "waiting")
  return due
end

-- The oldest dead letters go; what the history says of them stays.
local function bury_oldest(limit, most)
  local excess = call("ZCARD", P .. "dead") - limit
  if excess <= 0 then return end
  local gone = call("ZPOPMIN", P .. "dead", math.min(excess, most))
  for i = 1, #gone, 2 do
    local root, id = split(gone[i])
    local job = read_job(gone[i])
    drop_text(root, id, job)
    if not job.history or call("ZCOUNT", P .. "history", job.history, job.history) == 0 then
      call("DEL", P .. "job:" .. gone[i])
    end
    if not is_broken(job) then
      move_count(job.queue, job.profile, "dead", nil)
      count_total("dead_evicted", job.queue, job.profile)
    end
  end
end

-- Given up: a dead letter, and, when enqueues came since the claim, a new series in its place.
-- Returns the job's state and, of a waiting one, when it is due.
local function die(key, root, id, job, kind, message, limits, now)
  local entry = entry_of(key, scope_of(root, id, job), job, "dead", now,
    { error = { kind = kind, message = message }, merged = (tonumber(job.merged) or 0) })
  local number = chronicle(entry, limits.history)
  count_total("dead", job.queue, job.profile)
  if job.rcount then return "waiting", start_over(key, root, id, job, limits.max_wait, "history", number) end
  local name = P .. "job:" .. key
  call("HSET", name, "state", "dead", "history", number, "ended", now, "ekind", kind, "error", message,
    "attempts", job.attempts or 0, "losses", job.losses or 0)
  call("HDEL", name, "nb", "newer", "forced")
  leave_flight(key, root, job)
  call("ZADD", P .. "dead", now, key)
  move_count(job.queue, job.profile, nil, "dead")
  bury_oldest(limits.dead, 2)
  return "dead", 0
end
