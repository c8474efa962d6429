-- parties: what roots are owed, some of the known ones.
-- KEYS[1]  the prefix of every key
-- ARGV     parties to skip, most parties
-- Returns  now (ms), then for each party: root, profile, waiting, due, parked, in flight of the root,
--          earliest due (ms, 0 for none)
-- Cost     O(log n) a party and queue; writes nothing
-- include: clock names
local now, reply = clock(), {}
reply[1] = now
for _, party in ipairs(call("ZRANGE", P .. "roots", ARGV[1], ARGV[1] + ARGV[2] - 1)) do
  local root, profile = string.match(party, "^(.-)|(.*)$")
  local waiting, due, parked, earliest = 0, 0, 0, 0
  for _, pair in ipairs(call("SMEMBERS", P .. "lanes:" .. root)) do
    local queue, its_profile = string.match(pair, "^(.-)|(.*)$")
    if its_profile == profile then
      local lane = queue .. "|" .. party
      waiting = waiting + call("ZCARD", P .. "due:" .. lane)
      due = due + call("ZCOUNT", P .. "due:" .. lane, "-inf", now)
      parked = parked + call("ZCARD", P .. "parked:" .. lane)
      local head = tonumber(call("ZSCORE", P .. "heads:" .. queue, party))
      if head and (earliest == 0 or head < earliest) then earliest = head end
    end
  end
  local row = { root, profile, waiting, due, parked, call("SCARD", P .. "held:" .. root), earliest }
  for _, value in ipairs(row) do reply[#reply + 1] = value end
end
return reply
