-- overdue: how many jobs of a queue are due, by profile, held back or not.
-- KEYS[1]  the prefix of every key
-- ARGV     queue, parties to skip, most parties
-- Returns  now (ms), then for each party with due jobs, the most overdue first: profile, due jobs, the
--          earliest due (ms)
-- Cost     O(log n) a party; writes nothing
-- include: clock names
local now, reply = clock(), {}
reply[1] = now
local heads = call("ZRANGEBYSCORE", P .. "heads:" .. ARGV[1], "-inf", now, "WITHSCORES", "LIMIT", ARGV[2], ARGV[3])
for i = 1, #heads, 2 do
  local n = #reply
  reply[n + 1] = string.match(heads[i], "|(.*)$")
  reply[n + 2] = call("ZCOUNT", P .. "due:" .. ARGV[1] .. "|" .. heads[i], "-inf", now)
  reply[n + 3] = tonumber(heads[i + 1])
end
return reply
