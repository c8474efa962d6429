-- clock: Redis's own time in whole milliseconds, the only one the ledger goes by (I10).
local function clock()
  local time = redis.call("TIME")
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
