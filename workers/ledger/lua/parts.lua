-- parts: keys of a batch, some at a time.
-- KEYS[1]  the prefix of every key
-- ARGV     batch, cursor ("0" at first), about how many
-- Returns  the next cursor ("0": that was all), keys; a key may come twice
-- Cost     O(keys); writes nothing
return redis.call("SSCAN", KEYS[1] .. "batch:" .. ARGV[1], ARGV[2], "COUNT", ARGV[3])
