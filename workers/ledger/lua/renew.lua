-- renew: runs that are still theirs go on for another lease.
-- KEYS[1]  the prefix of every key
-- ARGV     lease (ms), then for each run: key, token
-- Returns  for each: 1, or 0 when the token is stale
-- Cost     O(log n) a run in jobs in flight
-- include: clock names
local ends, reply = clock() + tonumber(ARGV[1]), {}
for i = 2, #ARGV, 2 do
  local state, token, queue = read_fields(ARGV[i], "state", "token", "queue")
  if state == "running" and queue and token == ARGV[i + 1] then
    call("ZADD", P .. "running:" .. queue, ends, ARGV[i])
    reply[#reply + 1] = 1
  else
    reply[#reply + 1] = 0
  end
end
return reply
