-- start: a claimed job becomes a run.

-- More fields to set follow as field, value, ...
-- Returns what a worker is told: key, token, queue, profile, scope, envelope, attempts, losses, merged, due,
-- begun, end of lease (all ms).
local function start(key, root, id, job, token, now, lease, worker, ...)
  local _, scope, envelope = read_text(root, id)
  local attempts = (tonumber(job.attempts) or 0) + 1
  call("HSET", P .. "job:" .. key, "state", "running", "token", token, "begun", now, "worker", worker,
    "attempts", attempts, ...)
  call("ZADD", P .. "running:" .. job.queue, now + lease, key)
  move_count(job.queue, job.profile, nil, "running")
  count_total("begun", job.queue, job.profile)
  count_total("lag_ms", job.queue, job.profile, math.max(0, now - job.due))
  return { key, token, job.queue, job.profile, scope, envelope, attempts, tonumber(job.losses) or 0,
    tonumber(job.merged) or 0, tonumber(job.due), now, now + lease }
end

-- From queued; false when a breaker opened since the claim, and then the job is parked.
local function start_queued(key, root, id, job, now, lease, worker, max_wait)
  if not job.forced and call("EXISTS", P .. "breakers") == 1 and open_breaker_of(root, job.profile) then
    go_back(key, root, id, job, "parked", next_series(job, true, max_wait), {}, now)
    return false
  end
  call("ZREM", P .. "queued:" .. job.queue, key)
  move_count(job.queue, job.profile, "queued", nil)
  return start(key, root, id, job, tonumber(job.token), now, lease, worker)
end
