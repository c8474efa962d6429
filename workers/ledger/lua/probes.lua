-- probes: open breakers whose probe is due; the next one of each moves away, twice as far every time.
-- KEYS[1]  the prefix of every key
-- ARGV     longest pause between probes (ms), most breakers
-- Returns  for each: id, root to probe, reason
-- Cost     O(log n) a breaker
-- include: clock names
local now, cap, reply = clock(), tonumber(ARGV[1]), {}
for _, id in ipairs(call("ZRANGEBYSCORE", P .. "breakers", "-inf", now, "LIMIT", 0, tonumber(ARGV[2]))) do
  local name = P .. "breaker:" .. id
  local pause, via, reason = unpack(call("HMGET", name, "pause", "via", "reason"))
  pause = math.min(cap, 2 * tonumber(pause))
  call("HSET", name, "pause", pause)
  call("ZADD", P .. "breakers", now + pause, id)
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3] = id, via, reason
end
return reply
