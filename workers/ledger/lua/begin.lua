-- begin: the task that holds a job's current token starts it; any other goes home.
-- KEYS[1]  the prefix of every key
-- ARGV     key, token (as claim handed it out), lease (ms), worker, longest wait since first (ms)
-- Returns  nil when the token is stale, and then nothing is written, or when a breaker opened since the
--          claim, and then the job is parked; else key, token, queue, profile, scope, envelope,
--          attempts, losses, merged, due, begun, end of lease (all ms)
-- Cost     O(log n) in jobs in flight
-- include: clock names tally lanes wide records breakers flight start
local key, token, lease = ARGV[1], ARGV[2], tonumber(ARGV[3])
local root, id = split(key)
local job = root and read_job(key) or {}
-- The state too, not the token alone: a doorbell that rings twice brings the same token.
if job.state ~= "queued" or job.token ~= token or is_broken(job) then return false end
local run = start_queued(key, root, id, job, clock(), lease, ARGV[4], tonumber(ARGV[5]))
write_tallies()
return run
