-- dead: keys of dead letters, the newest first.
-- KEYS[1]  the prefix of every key
-- ARGV     keys to skip, most keys
-- Returns  keys
-- Cost     O(log n + keys); writes nothing
return redis.call("ZREVRANGE", KEYS[1] .. "dead", ARGV[1], ARGV[1] + ARGV[2] - 1)
