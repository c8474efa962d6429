-- begin: the task that holds a job's current token starts it; any other goes home.
-- KEYS[1]  the prefix of every key
-- ARGV     key, token (as claim handed it out), lease (ms), worker, longest wait since first (ms)
-- Returns  nil when the token is stale, and then nothing is written, or when a breaker opened since the
--          claim, and then the job is parked; else queue, profile, scope, envelope, attempts, losses,
--          merged, due, begun, end of lease (all ms)
-- Cost     O(log n) in jobs in flight
-- include: clock names tally lanes wide records breakers flight
local key, token, lease = ARGV[1], ARGV[2], tonumber(ARGV[3])
local root, id = split(key)
local job = root and read_job(key) or {}
-- The state too, not the token alone: a doorbell that rings twice brings the same token.
if job.state ~= "queued" or job.token ~= token then return false end
local now = clock()
if not job.forced and call("EXISTS", P .. "breakers") == 1 and open_breaker_of(root, job.profile) then
  go_back(key, root, id, job, "parked", next_series(job, true, tonumber(ARGV[5])), {}, now)
  write_tallies()
  return false
end
local _, scope, envelope = read_text(root, id)
local attempts = (tonumber(job.attempts) or 0) + 1
call("HSET", P .. "job:" .. key, "state", "running", "begun", now, "worker", ARGV[4], "attempts", attempts)
call("ZREM", P .. "queued:" .. job.queue, key)
call("ZADD", P .. "running:" .. job.queue, now + lease, key)
move_count(job.queue, job.profile, "queued", "running")
count_total("begun", job.queue, job.profile)
count_total("lag_ms", job.queue, job.profile, math.max(0, now - job.due))
write_tallies()
return { job.queue, job.profile, scope, envelope, attempts, tonumber(job.losses) or 0,
  tonumber(job.merged) or 0, tonumber(job.due), now, now + lease }
