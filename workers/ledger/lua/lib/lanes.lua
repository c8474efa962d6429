-- lanes: the waiting jobs of a party in a queue, and whose turn it is.
-- due:<lane>      zset  id -> due           the waiting jobs
-- heads:<queue>   zset  party -> earliest due of its lane, for every party with waiting jobs
-- asleep:<queue>  zset  the same, for parties not known to have due work
-- ring:<queue>    zset  party -> turn, for parties with due work: claim goes round
-- capped:<root>   set   `<queue>|<profile>` that claim left out because the root was at its cap or
--                 had the one run in flight that a breaker on trial lets through
-- A party with waiting jobs is in asleep, ring or capped, so that claim finds it without looking at jobs.

-- On the channel <prefix>due the workers hear, once a script, of a queue with a job that may start now.
local said = {}
-- Redis may forbid the channel (by its default, a user is given none): no reason to stop halfway.
local function say_due(queue)
  if not said[queue] then redis.pcall("PUBLISH", P .. "due", queue) end
  said[queue] = true
end

-- A party's earliest job is due then.
local function set_head(queue, party, due)
  call("ZADD", P .. "heads:" .. queue, due, party)
  if not call("ZSCORE", P .. "ring:" .. queue, party) then
    call("ZADD", P .. "asleep:" .. queue, due, party)
  end
end

-- The party has no waiting job.
local function clear_head(queue, party)
  call("ZREM", P .. "heads:" .. queue, party)
  call("ZREM", P .. "asleep:" .. queue, party)
  call("ZREM", P .. "ring:" .. queue, party)
end

-- Find out anew when a party's earliest job is due.
local function place(queue, party)
  local first = call("ZRANGE", P .. "due:" .. queue .. "|" .. party, 0, 0, "WITHSCORES")
  if first[1] then return set_head(queue, party, first[2]) end
  clear_head(queue, party)
end

-- Returns whether the party had waiting jobs before.
local function put(queue, party, id, due)
  call("ZADD", P .. "due:" .. queue .. "|" .. party, due, id)
  local head = call("ZSCORE", P .. "heads:" .. queue, party)
  if not head or due < tonumber(head) then set_head(queue, party, due) end
  return head
end

-- A waiting job is due at another time.  A party that therefore sleeps longer is left to wake early,
-- once: claim then finds nothing due and lets it sleep on.
local function move(queue, party, id, from, to)
  local lane, heads = P .. "due:" .. queue .. "|" .. party, P .. "heads:" .. queue
  call("ZADD", lane, to, id)
  local head = tonumber(call("ZSCORE", heads, party))
  if to < head then return set_head(queue, party, to) end
  if from == head then call("ZADD", heads, call("ZRANGE", lane, 0, 0, "WITHSCORES")[2], party) end
end

local function take(queue, party, id)
  call("ZREM", P .. "due:" .. queue .. "|" .. party, id)
  place(queue, party)
end

-- What was held back for the jobs its root has in flight may be claimed again; `aloud` when whoever
-- is free should hear of it.
local function release(root, aloud)
  local capped = call("SMEMBERS", P .. "capped:" .. root)
  if #capped == 0 then return end
  call("DEL", P .. "capped:" .. root)
  for _, lane in ipairs(capped) do
    local queue, profile = string.match(lane, "^(.-)|(.*)$")
    place(queue, root .. "|" .. profile)
    if aloud then say_due(queue) end
  end
end

-- A job of the root is no longer in flight.
local function free_slot(root, key)
  call("SREM", P .. "held:" .. root, key)
  release(root)
end
