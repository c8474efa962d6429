-- restore: a job whose hash is broken, from what else is known of it; without a text it will be a dead letter.

-- A queue's jobs are of one profile.
local function profile_of(queue)
  for _, field in ipairs(call("HKEYS", P .. "totals")) do
    local its_queue, profile = string.match(field, "^new|(.-)|(.*)$")
    if its_queue == queue then return profile end
  end
end

-- It waits, by its hash alone: its place in an index is its caller's to give.
local function restore(key, root, id, queue, profile, due, now)
  local name, coverage, scope = P .. "job:" .. key, read_text(root, id)
  call("DEL", name)
  call("HSET", name, "state", "waiting", "queue", queue, "profile", profile, "due", due, "first", math.min(due, now),
    "last", math.min(due, now), "delay", 0)
  if not is_build(id) then call("HSET", name, "scope", scope) end
  if is_wide(coverage) then
    call("HSET", name, "coverage", coverage)
    index_wide(root .. "|" .. profile, coverage, id)
  end
end
