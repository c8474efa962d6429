-- close_breaker: a probe found the engine well; `unpark` then returns what was parked.
-- KEYS[1]  the prefix of every key
-- ARGV     profile, root ("" for the whole profile), longest pause between probes (ms)
-- Returns  1, or 0 when it is not open
-- Cost     O(log n) in open breakers
-- include: clock names tally lanes breakers
local own, wide = ids_of(ARGV[2], ARGV[1])
return close_breaker(ARGV[2] == "" and wide or own, clock(), tonumber(ARGV[3])) and 1 or 0
