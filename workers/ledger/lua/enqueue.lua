-- enqueue: accept jobs, each merged with what is owed under its key; all of them or none.
-- KEYS[1]  the prefix of every key
-- ARGV     longest wait since the first enqueue (ms), "1" when a host asks, then for each job:
--          key, queue, profile, delay (ms), scope, coverage, batch, envelope
-- Returns  for each job: "new" | "merged" | "rerun", due (ms)
-- Says     each queue with a job that may start now
-- Cost     O(log n) a job in jobs waiting
-- include: clock names tally lanes wide accept
local jobs, refused = parse_jobs(3)
if refused then return refused end
local now, max_wait, by_host = clock(), tonumber(ARGV[1]), ARGV[2] == "1"
local reply = {}
for i, job in ipairs(jobs) do
  local state, due = accept(job, now, max_wait, by_host)
  reply[2 * i - 1], reply[2 * i] = state, due
  if due <= now and state ~= "rerun" then say_due(job.queue) end
end
write_tallies()
return reply
