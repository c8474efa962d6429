-- run_now: an operator's run goes first, whatever its delay and its breaker say.
-- KEYS[1]  the prefix of every key
-- ARGV     key
-- Returns  the state it was found in, "" when unknown; only waiting, parked and dead ones are touched
-- Says     its queue
-- Cost     O(log n) in jobs waiting
-- include: clock names tally lanes wide breakers
local key, now = ARGV[1], clock()
local root, id = split(key)
local job = root and read_job(key) or {}
local state, name = job.state, P .. "job:" .. key
if is_broken(job) then return "" end
if state == "dead" then
  if call("ZREM", P .. "dead", key) == 0 then return state end
  call("HDEL", name, "attempts", "losses", "ekind", "error", "history", "ended")
  move_count(job.queue, job.profile, "dead", nil)
elseif state == "parked" then
  unpark(job.queue, root, job.profile, id)
elseif state == "waiting" then
  move_count(job.queue, job.profile, "waiting", nil)
else
  return state or ""
end
call("HSET", name, "state", "waiting", "due", now, "forced", 1)
call("HDEL", name, "nb")
put(job.queue, root .. "|" .. job.profile, id, now)
place(job.queue, root .. "|" .. job.profile)
call("ZADD", P .. "express:" .. job.queue, now, key)
move_count(job.queue, job.profile, nil, "waiting")
say_due(job.queue)
write_tallies()
return state
