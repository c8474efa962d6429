-- give_back: claimed jobs whose doorbell could not be published wait again, as if never claimed.
-- KEYS[1]  the prefix of every key
-- ARGV     longest wait since first (ms), then for each job: key, token
-- Returns  how many were still queued under their token
-- Cost     O(log n) a job
-- include: clock names tally lanes wide records breakers flight
local now, max_wait, returned = clock(), tonumber(ARGV[1]), 0
for i = 2, #ARGV, 2 do
  local root, id = split(ARGV[i])
  local job = root and read_job(ARGV[i]) or {}
  if job.state == "queued" and job.token == ARGV[i + 1] and not is_broken(job) then
    go_back(ARGV[i], root, id, job, "waiting", next_series(job, true, max_wait), {}, now)
    returned = returned + 1
  end
end
write_tallies()
return returned
