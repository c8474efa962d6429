-- to_reconcile: known parties whose turn it is to be compared with their engine, and now was.
-- KEYS[1]  the prefix of every key
-- ARGV     most parties, least time since the last turn (ms)
-- Returns  parties, the one whose turn is longest ago first
-- Cost     O(log n) a party
-- include: clock names
local now = clock()
local parties = call("ZRANGEBYSCORE", P .. "roots", "-inf", now - ARGV[2], "LIMIT", 0, ARGV[1])
for _, party in ipairs(parties) do call("ZADD", P .. "roots", now, party) end
return parties
