-- enqueue: accept jobs, each merged with what is owed under its key; all of them or none.
-- KEYS[1]  the prefix of every key
-- ARGV     longest wait since the first enqueue (ms), "1" when a host asks, then for each job:
--          key, queue, profile, delay (ms), scope, coverage, batch, envelope
-- Returns  for each job: "new" | "merged" | "rerun", due (ms)
-- Cost     O(log n) a job in jobs waiting
-- include: clock names tally lanes wide accept
local jobs, refused = parse_jobs(3)
if refused then return refused end
local now, max_wait, by_host = clock(), tonumber(ARGV[1]), ARGV[2] == "1"
local reply = {}
for i, job in ipairs(jobs) do
  reply[2 * i - 1], reply[2 * i] = accept(job, now, max_wait, by_host)
end
write_tallies()
return reply
