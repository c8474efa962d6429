-- unanswered: claimed jobs that nobody has begun for a while, to be rung for once more.
-- KEYS[1]  the prefix of every key
-- ARGV     queue, how long at least they are claimed (ms)
-- Returns  for each job: key, token, "high" | "normal", profile, scope
-- Cost     O(jobs of the queue claimed and not begun); writes nothing
-- include: clock names
local before, reply = clock() - tonumber(ARGV[2]), {}
for _, key in ipairs(call("ZRANGE", P .. "queued:" .. ARGV[1], 0, -1)) do
  local root, id = split(key)
  local job, n = read_job(key), #reply
  if job.state == "queued" and not is_broken(job) and tonumber(job.claimed) <= before then
    reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] =
      key, job.token, job.forced and "high" or "normal", job.profile
    reply[n + 5] = scope_of(root, id, job)
  end
end
return reply
