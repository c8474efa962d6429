-- breakers: the open ones, the next to be probed first.
-- KEYS[1]  the prefix of every key
-- ARGV     none
-- Returns  for each: id, next probe (ms), reason, since (ms), jobs parked
-- Cost     O(open breakers x queues); writes nothing
-- include: names
local reply, counts = {}, nil
local open = call("ZRANGE", P .. "breakers", 0, -1, "WITHSCORES")
for i = 1, #open, 2 do
  local root, profile = string.match(open[i], "^(.-)|(.*)$")
  local parked = 0
  if root == "*" then
    counts = counts or call("HGETALL", P .. "counts")
    for j = 1, #counts, 2 do
      local state, its_profile = string.match(counts[j], "^(.-)|.-|(.*)$")
      if state == "parked" and its_profile == profile then parked = parked + counts[j + 1] end
    end
  else
    for _, pair in ipairs(call("SMEMBERS", P .. "lanes:" .. root)) do
      local queue, its_profile = string.match(pair, "^(.-)|(.*)$")
      if its_profile == profile then parked = parked + call("ZCARD", P .. "parked:" .. queue .. "|" .. open[i]) end
    end
  end
  local reason, since = unpack(call("HMGET", P .. "breaker:" .. open[i], "reason", "since"))
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4], reply[n + 5] =
    open[i], tonumber(open[i + 1]), reason, tonumber(since), parked
end
return reply
