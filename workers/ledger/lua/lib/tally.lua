-- tally: how many jobs of a queue and profile are in each state, and what happened to how many.
-- A script adds up its changes and writes them once, with `write_tallies`, as its last step.
local tallies = { counts = {}, totals = {} }

local function count(kind, name, queue, profile, by)
  local field = name .. "|" .. queue .. "|" .. profile
  tallies[kind][field] = (tallies[kind][field] or 0) + (by or 1)
end

local function move_count(queue, profile, from, to)
  if from then count("counts", from, queue, profile, -1) end
  if to then count("counts", to, queue, profile, 1) end
end

local function count_total(name, queue, profile, by)
  count("totals", name, queue, profile, by)
end

local function write_tallies()
  for kind, fields in pairs(tallies) do
    for field, by in pairs(fields) do
      if by ~= 0 then redis.call("HINCRBY", KEYS[1] .. kind, field, by) end
    end
  end
end
