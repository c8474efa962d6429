-- erase: what a root is owed, step by step, and at last every key of its own.
-- KEYS[1]  the prefix of every key
-- ARGV     root, most jobs, "1" when dead letters and history are erased already
-- Returns  jobs erased; fewer than `most`: none is left
-- Cost     O(log n) a job
-- include: clock names tally lanes wide records breakers flight remove
local root, most, last = ARGV[1], tonumber(ARGV[2]), ARGV[3] == "1"
local erased = 0

local function erase(key)
  local _, id = split(key)
  local job = read_job(key)
  remove(key, root, id, job)
  drop_text(root, id, job)
  call("DEL", P .. "job:" .. key)
  erased = erased + 1
end

for _, key in ipairs(call("SMEMBERS", P .. "held:" .. root)) do erase(key) end
local pairs_of_root = call("SMEMBERS", P .. "lanes:" .. root)
for _, pair in ipairs(pairs_of_root) do
  local queue, profile = string.match(pair, "^(.-)|(.*)$")
  local lane = queue .. "|" .. root .. "|" .. profile
  for _, kind in ipairs({ "due:", "parked:" }) do
    if erased < most then
      for _, id in ipairs(call("ZRANGE", P .. kind .. lane, 0, most - erased - 1)) do erase(key_of(root, id)) end
    end
  end
end

if last and erased < most then
  for _, pair in ipairs(pairs_of_root) do
    local party = root .. "|" .. string.match(pair, "^.-|(.*)$")
    for _, index in ipairs({ "active", "resting", "roots" }) do call("ZREM", P .. index, party) end
    call("DEL", P .. "wide:" .. party)
  end
  for _, index in ipairs({ "breakers", "trials" }) do
    for _, id in ipairs(call("ZRANGE", P .. index, 0, -1)) do
      if string.match(id, "^(.-)|") == root then
        call("ZREM", P .. index, id)
        call("DEL", P .. "breaker:" .. id)
      end
    end
  end
  for _, batch in ipairs(call("SMEMBERS", P .. "batches:" .. root)) do call("DEL", P .. "batch:" .. batch) end
  call("DEL", P .. "lanes:" .. root, P .. "capped:" .. root, P .. "batches:" .. root)
  call("UNLINK", P .. "text:" .. root)
end
write_tallies()
return erased
