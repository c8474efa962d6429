-- unpark: parked jobs that no open breaker holds any more wait again.
-- KEYS[1]  the prefix of every key
-- ARGV     lanes to skip, lanes to look at, most jobs
-- Returns  jobs unparked, where the next call goes on (0: all lanes were looked at)
-- Says     each queue with one that may start now
-- Cost     O(log n) a job and a lane
-- include: clock names tally lanes wide breakers restore
local now, skip, looks, left = clock(), tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local most = left
for _, lane in ipairs(call("ZRANGE", P .. "parkings", skip, skip + looks - 1)) do
  local queue, root, profile = string.match(lane, "^(.-)|(.-)|(.*)$")
  if open_breaker_of(root, profile) then
    skip = skip + 1
  else
    local parked = call("ZRANGE", P .. "parked:" .. lane, 0, left - 1, "WITHSCORES")
    for i = 1, #parked, 2 do
      local key = key_of(root, parked[i])
      unpark(queue, root, profile, parked[i])
      local due = tonumber(parked[i + 1])
      if is_broken(read_job(key)) then restore(key, root, parked[i], queue, profile, due, now) end
      call("HSET", P .. "job:" .. key, "state", "waiting")
      put(queue, root .. "|" .. profile, parked[i], due)
      if due <= now then say_due(queue) end
      move_count(queue, profile, nil, "waiting")
      left = left - 1
    end
    if call("EXISTS", P .. "parked:" .. lane) == 1 then break end
  end
  looks = looks - 1
  if left == 0 then break end
end
write_tallies()
local more = (left == 0 or looks == 0) and call("ZCARD", P .. "parkings") > skip
return { most - left, more and skip or -1 }
