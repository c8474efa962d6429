-- prune: parties that owe nothing and have been idle are forgotten, and lowered limits reached.
-- KEYS[1]  the prefix of every key
-- ARGV     least time since the last enqueue (ms), history limit, dead limit, most parties and records
-- Returns  parties forgotten, 1 when there may be more to do
-- Cost     O(log n) a party and a record
-- include: clock names tally lanes wide records breakers flight
local now, most, forgotten = clock(), tonumber(ARGV[4]), 0

local function owes_nothing(root)
  if call("EXISTS", P .. "held:" .. root, P .. "text:" .. root) > 0 then return false end
  for _, pair in ipairs(call("SMEMBERS", P .. "lanes:" .. root)) do
    local queue, profile = string.match(pair, "^(.-)|(.*)$")
    local lane = queue .. "|" .. root .. "|" .. profile
    if call("EXISTS", P .. "due:" .. lane, P .. "parked:" .. lane) > 0 then return false end
  end
  return true
end

local function forget(party, root, profile)
  for _, index in ipairs({ "resting", "active", "roots" }) do call("ZREM", P .. index, party) end
  for _, pair in ipairs(call("SMEMBERS", P .. "lanes:" .. root)) do
    if string.match(pair, "^.-|(.*)$") == profile then call("SREM", P .. "lanes:" .. root, pair) end
  end
  forgotten = forgotten + 1
end

local looked = 0
for _, index in ipairs({ "resting", "active" }) do
  local idle = call("ZRANGEBYSCORE", P .. index, "-inf", now - ARGV[1], "LIMIT", 0, most)
  looked = math.max(looked, #idle)
  for _, party in ipairs(idle) do
    local root, profile = string.match(party, "^(.-)|(.*)$")
    local later = index == "resting" and call("ZSCORE", P .. "active", party)
    if later and tonumber(later) > now - ARGV[1] then
      call("ZREM", P .. "resting", party)
    elseif owes_nothing(root) then
      forget(party, root, profile)
    else
      -- Asked again after as long.
      call("ZADD", P .. index, now, party)
    end
  end
end
forget_oldest(tonumber(ARGV[2]), most)
bury_oldest(tonumber(ARGV[3]), most)
write_tallies()
local over = call("ZCARD", P .. "history") > tonumber(ARGV[2]) or call("ZCARD", P .. "dead") > tonumber(ARGV[3])
return { forgotten, (looked == most or over) and 1 or 0 }
