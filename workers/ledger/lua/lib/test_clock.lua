-- test_clock: stands in for `clock` in tests, where time has to jump.
local function clock()
  return tonumber(redis.call("GET", KEYS[1] .. "test:now"))
end
