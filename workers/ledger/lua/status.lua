-- status: where jobs are, followed through what they were folded into.
-- KEYS[1]  the prefix of every key
-- ARGV     keys
-- Returns  for each: key of the job that covers it, state ("" when unknown), last enqueue, served
--          through (ms, 0 for never), token of the run in flight or of the last that succeeded ("")
-- Cost     O(1) a key; writes nothing
-- include: names
local MAX_HOPS, reply = 8, {}
for _, key in ipairs(ARGV) do
  local since, hops, state, token, last, rlast, served, run, into, claimed_from = 0, 0
  repeat
    state, token, last, rlast, served, run, into, claimed_from =
      read_fields(key, "state", "token", "last", "rlast", "served", "srun", "into", "since")
    local follow = state == "folded" and hops < MAX_HOPS
    if follow then key, since, hops = into, math.max(since, tonumber(claimed_from)), hops + 1 end
  until not follow
  served = tonumber(served) or 0
  -- The run it was folded into is over, whatever that build has waiting since.
  if hops > 0 and served >= since then state = "done" end
  if state == "folded" then state = "unknown" end
  local running = state == "queued" or state == "running"
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = key, state or "", tonumber(rlast or last) or 0, served
  reply[n + 5] = running and token or run or ""
end
return reply
