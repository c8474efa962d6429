-- open_breaker: nothing of a party, or of a whole profile, runs until a probe closes it.
-- KEYS[1]  the prefix of every key
-- ARGV     profile, root (to probe through), "1" for the whole profile, reason, first and longest pause
--          between probes (ms)
-- Returns  1, or 0 when it is open already
-- Cost     O(log n) in open breakers
-- include: clock names tally lanes breakers
local own, wide = ids_of(ARGV[2], ARGV[1])
local id = ARGV[3] == "1" and wide or own
return open_breaker(id, ARGV[2], ARGV[4], clock(), tonumber(ARGV[5]), tonumber(ARGV[6])) and 1 or 0
