-- erase_history: a root's entries, and what is left of its jobs that are over, step by step.
-- KEYS[1]  the prefix of every key
-- ARGV     root, number to go on after ("-inf" at first), most entries to look at
-- Returns  entries erased, the number to go on after ("" when that was all)
-- Cost     O(log n) an entry
-- include: names
local root, after, most = ARGV[1], ARGV[2], tonumber(ARGV[3])
local from = after == "-inf" and after or "(" .. after
local found = call("ZRANGEBYSCORE", P .. "history", from, "+inf", "WITHSCORES", "LIMIT", 0, most)
local erased = 0
for i = 1, #found, 2 do
  local key = cjson.decode(found[i]).key
  if split(key) == root then
    local name = P .. "job:" .. key
    local state = call("HGET", name, "state")
    if state == "done" or state == "cancelled" or state == "folded" or state == "dead" then call("DEL", name) end
    call("ZREM", P .. "history", found[i])
    erased = erased + 1
  end
end
return { erased, #found == 2 * most and found[#found] or "" }
