-- owed: the jobs that are due first, in any of the states asked for.
-- KEYS[1]  the prefix of every key
-- ARGV     root ("" for all), most jobs, then states: waiting, queued, running, parked
-- Returns  due (ms), key for at least the first `most` by due time, in no order
-- Cost     O(most log most), and a look at each queue, job in flight and parked lane; writes nothing
-- include: names
local root, most = ARGV[1], tonumber(ARGV[2])
local wanted, found, latest = {}, {}, nil
for i = 3, #ARGV do wanted[ARGV[i]] = true end

-- Keep the first `most` by due time; `latest` is then the last due time worth looking at.
local function trim()
  if #found <= most then return end
  table.sort(found, function(a, b) return a[1] < b[1] end)
  for i = #found, most + 1, -1 do found[i] = nil end
  latest = found[most][1]
end

local function add_lane(key, its_root)
  local jobs = call("ZRANGEBYSCORE", key, "-inf", latest or "+inf", "WITHSCORES", "LIMIT", 0, most)
  for i = 1, #jobs, 2 do found[#found + 1] = { tonumber(jobs[i + 1]), key_of(its_root, jobs[i]) } end
  if #found > 2 * most then trim() end
end

local function add_waiting(queue)
  local from, page = 0, 100
  repeat
    local heads = call("ZRANGE", P .. "heads:" .. queue, from, from + page - 1, "WITHSCORES")
    for i = 1, #heads, 2 do
      trim()
      if latest and tonumber(heads[i + 1]) > latest then return end
      add_lane(P .. "due:" .. queue .. "|" .. heads[i], string.match(heads[i], "^(.-)|"))
    end
    from = from + page
  until #heads < 2 * page
end

local function add_in_flight(state, queue)
  for _, key in ipairs(call("ZRANGE", P .. state .. ":" .. queue, 0, -1)) do
    if root == "" or split(key) == root then
      found[#found + 1] = { tonumber(read_fields(key, "due") or 0), key }
    end
  end
end

if root == "" then
  for _, queue in ipairs(call("SMEMBERS", P .. "queues")) do
    if wanted.waiting then add_waiting(queue) end
  end
  if wanted.parked then
    for _, lane in ipairs(call("ZRANGE", P .. "parkings", 0, -1)) do
      add_lane(P .. "parked:" .. lane, string.match(lane, "^.-|(.-)|"))
    end
  end
else
  for _, pair in ipairs(call("SMEMBERS", P .. "lanes:" .. root)) do
    local queue, profile = string.match(pair, "^(.-)|(.*)$")
    local lane = queue .. "|" .. root .. "|" .. profile
    if wanted.waiting then add_lane(P .. "due:" .. lane, root) end
    if wanted.parked then add_lane(P .. "parked:" .. lane, root) end
  end
end
trim()
for _, queue in ipairs(call("SMEMBERS", P .. "queues")) do
  for _, state in ipairs({ "queued", "running" }) do
    if wanted[state] then add_in_flight(state, queue) end
  end
end

local reply = {}
for _, pair in ipairs(found) do
  reply[#reply + 1] = pair[1]
  reply[#reply + 1] = pair[2]
end
return reply
