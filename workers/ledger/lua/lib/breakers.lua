-- breakers: what is parked while an engine cannot be used, and for how long it is left alone.
-- breakers        zset  id -> next probe    open ones; an id is a party, or `*|<profile>`
-- trials          zset  id -> forgotten at  closed by a probe, not yet proven by a run
-- breaker:<id>    hash  reason, since, pause, via (the root to probe)
-- parked:<lane>   zset  id -> due;  parkings  zset  lane -> since
local PROFILE_WIDE = "*|"

local function ids_of(root, profile)
  return root .. "|" .. profile, PROFILE_WIDE .. profile
end

-- The id of the breaker that holds a party back, or nil.
local function open_breaker_of(root, profile)
  local own, wide = ids_of(root, profile)
  if call("ZSCORE", P .. "breakers", own) then return own end
  if call("ZSCORE", P .. "breakers", wide) then return wide end
end

local function is_on_trial(root, profile)
  local own, wide = ids_of(root, profile)
  return call("ZSCORE", P .. "trials", own) or call("ZSCORE", P .. "trials", wide)
end

-- False when it is open already.  One that opens out of a trial is left alone for longer than before:
-- its engine says it is well and is not.
local function open_breaker(id, via, reason, now, probe, cap)
  if call("ZSCORE", P .. "breakers", id) then return false end
  local name, pause = P .. "breaker:" .. id, probe
  if call("ZREM", P .. "trials", id) == 1 then
    pause = math.min(cap, 2 * (tonumber(call("HGET", name, "pause")) or probe))
  end
  call("HSET", name, "reason", reason, "since", now, "pause", pause, "via", via)
  call("ZADD", P .. "breakers", now + pause, id)
  return true
end

-- What it parked stays parked until `unpark` finds nothing holds it.
local function close_breaker(id, now, cap)
  if call("ZREM", P .. "breakers", id) == 0 then return false end
  call("ZADD", P .. "trials", now + 2 * cap, id)
  return true
end

-- What it held back may be claimed again: of every root that has a job in flight, as one without any was
-- not held back.
local function end_trial(id)
  if call("ZREM", P .. "trials", id) == 0 then return end
  call("DEL", P .. "breaker:" .. id)
  local root = string.match(id, "^(.-)|")
  if root ~= "*" then return release(root, true) end
  for _, queue in ipairs(call("SMEMBERS", P .. "queues")) do
    for _, state in ipairs({ "queued", "running" }) do
      for _, key in ipairs(call("ZRANGE", P .. state .. ":" .. queue, 0, -1)) do
        root = split(key)
        release(root, true)
      end
    end
  end
end

-- A run succeeded: no failures in a row, and a trial passed.
local function note_success(root, profile, forced, now, cap)
  call("DEL", P .. "streak:" .. profile)
  if call("EXISTS", P .. "breakers", P .. "trials") == 0 then return end
  for _, id in ipairs({ ids_of(root, profile) }) do
    if forced then close_breaker(id, now, cap) end
    end_trial(id)
  end
end

-- The job's hash is its caller's to write.
local function park(queue, root, profile, id, due, now)
  local lane = queue .. "|" .. root .. "|" .. profile
  call("ZADD", P .. "parked:" .. lane, due, id)
  call("ZADD", P .. "parkings", "NX", now, lane)
  move_count(queue, profile, nil, "parked")
end

local function unpark(queue, root, profile, id)
  local lane = queue .. "|" .. root .. "|" .. profile
  call("ZREM", P .. "parked:" .. lane, id)
  if call("EXISTS", P .. "parked:" .. lane) == 0 then call("ZREM", P .. "parkings", lane) end
  move_count(queue, profile, "parked", nil)
end
