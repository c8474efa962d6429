-- lanes: the waiting jobs of a party in a queue, and whose turn it is.
-- due:<lane>      zset  id -> due           the waiting jobs
-- heads:<queue>   zset  party -> earliest due of its lane, for every party with waiting jobs
-- asleep:<queue>  zset  the same, for parties not known to have due work
-- ring:<queue>    zset  party -> turn, for parties with due work: claim goes round
-- capped:<root>   set   `<queue>|<profile>` that claim left out because the root was at its cap
-- A party with waiting jobs is in asleep, ring or capped, so that claim finds it without looking at jobs.

-- A party's earliest job is due then.
local function set_head(queue, party, due)
  call("ZADD", P .. "heads:" .. queue, due, party)
  if not call("ZSCORE", P .. "ring:" .. queue, party) then
    call("ZADD", P .. "asleep:" .. queue, due, party)
  end
end

-- Find out anew when a party's earliest job is due.
local function place(queue, party)
  local first = call("ZRANGE", P .. "due:" .. queue .. "|" .. party, 0, 0, "WITHSCORES")
  if first[1] then return set_head(queue, party, first[2]) end
  call("ZREM", P .. "heads:" .. queue, party)
  call("ZREM", P .. "asleep:" .. queue, party)
  call("ZREM", P .. "ring:" .. queue, party)
end

local function put(queue, party, id, due)
  call("ZADD", P .. "due:" .. queue .. "|" .. party, due, id)
  local head = call("ZSCORE", P .. "heads:" .. queue, party)
  if not head or due < tonumber(head) then set_head(queue, party, due) end
end

local function take(queue, party, id)
  call("ZREM", P .. "due:" .. queue .. "|" .. party, id)
  place(queue, party)
end

-- A job of the root is no longer in flight: what its cap held back may be claimed again.
local function free_slot(root, key)
  call("SREM", P .. "held:" .. root, key)
  local capped = call("SMEMBERS", P .. "capped:" .. root)
  if #capped == 0 then return end
  call("DEL", P .. "capped:" .. root)
  for _, lane in ipairs(capped) do
    local queue, profile = string.match(lane, "^(.-)|(.*)$")
    place(queue, root .. "|" .. profile)
  end
end
