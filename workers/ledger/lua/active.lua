-- active: parties with writes of hosts that no nightly build covers yet, the longest active first.
-- KEYS[1]  the prefix of every key
-- ARGV     most parties
-- Returns  party, last enqueue (ms), ...
-- Cost     O(log n + parties); writes nothing
return redis.call("ZRANGE", KEYS[1] .. "active", 0, ARGV[1] - 1, "WITHSCORES")
