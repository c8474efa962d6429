-- rest: the nightly build of a party is enqueued; it is active again with the next enqueue of a host.
-- KEYS[1]  the prefix of every key
-- ARGV     party, last enqueue the build was made for (ms)
-- Returns  1, or 0 when there was a later enqueue
-- Cost     O(log n) in parties
local P, call = KEYS[1], redis.call
local last = tonumber(call("ZSCORE", P .. "active", ARGV[1]))
if not last or last > tonumber(ARGV[2]) then return 0 end
call("ZADD", P .. "resting", last, ARGV[1])
call("ZREM", P .. "active", ARGV[1])
return 1
