-- counts: how many jobs are in each state, and what happened to how many.
-- KEYS[1]  the prefix of every key
-- ARGV     none
-- Returns  queues; counts and totals as `<name>|<queue>|<profile>`, value, ...
-- Cost     O(queues x profiles); writes nothing
local P = KEYS[1]
return { redis.call("SMEMBERS", P .. "queues"), redis.call("HGETALL", P .. "counts"), redis.call("HGETALL", P .. "totals") }
