-- retry: dead jobs get a new series of attempts, due now.
-- KEYS[1]  the prefix of every key
-- ARGV     keys
-- Returns  for each: 1, or 0 when there is no such dead letter
-- Says     the queues of those
-- Cost     O(log n) a job
-- include: clock names tally lanes
local now, reply = clock(), {}
for i, key in ipairs(ARGV) do
  local job, name = read_job(key), P .. "job:" .. key
  reply[i] = is_broken(job) and 0 or call("ZREM", P .. "dead", key)
  if reply[i] == 1 then
    local root, id = split(key)
    call("HSET", name, "state", "waiting", "due", now)
    call("HDEL", name, "attempts", "losses", "ekind", "error", "history", "ended")
    put(job.queue, root .. "|" .. job.profile, id, now)
    move_count(job.queue, job.profile, "dead", "waiting")
    say_due(job.queue)
  end
end
write_tallies()
return reply
