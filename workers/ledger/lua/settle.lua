-- settle: a run that succeeded ends, and what follows from it is enqueued in the same step.
-- KEYS[1]  the prefix of every key
-- ARGV     key, token, outcome, built, scopes, stored ("" for unknown), longest wait since first (ms),
--          history limit, longest pause between probes (ms), then follow-ups as `enqueue` has them
-- Returns  nil when the token is stale, and then nothing is written; else "done", 0 or "waiting", due
--          (ms), then for each follow-up: "new" | "merged" | "rerun", due (ms)
-- Says     each queue with a job that a breaker's trial held back, when the run passes it
-- Cost     O(log n) in jobs waiting, for each follow-up again; when a profile's trial is passed, a look at
--          each job in flight
-- include: clock names tally lanes wide records breakers flight accept
local key, token, max_wait = ARGV[1], ARGV[2], tonumber(ARGV[7])
local root, id = split(key)
local job = root and read_job(key) or {}
if job.state ~= "running" or job.token ~= token or is_broken(job) then return false end
local follow_ups, refused = parse_jobs(10, root)
if refused then return refused end
local now = clock()
local reply = { "done", 0 }
for _, follow_up in ipairs(follow_ups) do
  -- No job enqueues itself, on whatever detour.
  if follow_up.key ~= key then
    reply[#reply + 1], reply[#reply + 2] = accept(follow_up, now, max_wait, false)
  end
end
local number = chronicle(entry_of(key, scope_of(root, id, job), job, ARGV[3], now, {
  built = tonumber(ARGV[4]), scopes = tonumber(ARGV[5]), stored = tonumber(ARGV[6]),
}), tonumber(ARGV[8]))
count_total("done", job.queue, job.profile)
count_total("run_ms", job.queue, job.profile, now - job.begun)
note_success(root, job.profile, job.forced, now, tonumber(ARGV[9]))
if job.rcount then
  reply[1] = "waiting"
  reply[2] = start_over(key, root, id, job, max_wait, "served", job.claimed, "srun", token)
else
  leave_flight(key, root, job)
  job.served, job.srun = job.claimed, token
  finish(key, root, id, job, "done", number, now, "outcome", ARGV[3])
end
write_tallies()
return reply
