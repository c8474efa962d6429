-- history: runs that ended, the newest first.
-- KEYS[1]  the prefix of every key
-- ARGV     number to stay below ("+inf" at first), most entries
-- Returns  number, entry as JSON, ...
-- Cost     O(log n + entries); writes nothing
local below = ARGV[1] == "+inf" and ARGV[1] or "(" .. ARGV[1]
local found = redis.call("ZREVRANGEBYSCORE", KEYS[1] .. "history", below, "-inf", "WITHSCORES", "LIMIT", 0, ARGV[2])
local reply = {}
for i = 1, #found, 2 do reply[i], reply[i + 1] = found[i + 1], found[i] end
return reply
