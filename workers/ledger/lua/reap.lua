-- reap: expired leases are void; an unanswered doorbell costs nothing, a silent run counts as a loss.
-- KEYS[1]  the prefix of every key
-- ARGV     most losses, longest wait since first (ms), history limit, dead limit, most jobs a call
-- Returns  returned to waiting, lost, dead of those, 1 when the bound was reached
-- Says     each queue with one that may start now, or that a trial held back when that is forgotten
-- Cost     O(k log n) for k expired, and a look at each queue; when a profile's trial is forgotten, at each
--          job in flight
-- include: clock names tally lanes wide records breakers flight restore
local now, max_losses, max_wait = clock(), tonumber(ARGV[1]), tonumber(ARGV[2])
local limits = { max_wait = max_wait, history = tonumber(ARGV[3]), dead = tonumber(ARGV[4]) }
local left, returned, lost, dead = tonumber(ARGV[5]), 0, 0, 0

local function return_to(queue, key, root, id, job, series, changes)
  if go_back(key, root, id, job, "waiting", series, changes, now) <= now then say_due(queue) end
end

local function lose(key, root, id, job)
  local losses = (tonumber(job.losses) or 0) + 1
  lost = lost + 1
  count_total("lost", job.queue, job.profile)
  count_total("run_ms", job.queue, job.profile, now - job.begun)
  job.losses = losses
  local message = "its worker died " .. losses .. (losses == 1 and " time" or " times")
  if losses >= max_losses then
    dead = dead + 1
    return die(key, root, id, job, "lost", message, limits, now)
  end
  local entry = entry_of(key, scope_of(root, id, job), job, "lost", now, { error = { kind = "lost", message = message } })
  chronicle(entry, limits.history)
  return_to(job.queue, key, root, id, job, next_series(job, false, max_wait),
    { losses = losses, ekind = "lost", error = message })
end

-- What is in the index is in no such state: its hash is broken, or it was enqueued anew since that was so.
local function clear_away(queue, state, key, root, id, job)
  call("ZREM", P .. state .. ":" .. queue, key)
  local profile = profile_of(queue)
  if not root or not profile then return end
  move_count(queue, profile, state, nil)
  free_slot(root, key)
  if not is_broken(job) then return end
  restore(key, root, id, queue, profile, now, now)
  put(queue, root .. "|" .. profile, id, now)
  say_due(queue)
  move_count(queue, profile, nil, "waiting")
end

for _, queue in ipairs(call("SMEMBERS", P .. "queues")) do
  for _, state in ipairs({ "queued", "running" }) do
    for _, key in ipairs(call("ZRANGEBYSCORE", P .. state .. ":" .. queue, "-inf", now, "LIMIT", 0, left)) do
      local root, id = split(key)
      local job = root and read_job(key) or {}
      left = left - 1
      if is_broken(job) or job.state ~= state then
        clear_away(queue, state, key, root, id, job)
      elseif state == "running" then
        lose(key, root, id, job)
      else
        return_to(queue, key, root, id, job, next_series(job, true, max_wait), {})
        returned = returned + 1
      end
    end
  end
end

-- A trial nobody was there to pass is forgotten in time.
for _, id in ipairs(call("ZRANGEBYSCORE", P .. "trials", "-inf", now, "LIMIT", 0, 100)) do
  end_trial(id)
end
write_tallies()
return { returned, lost, dead, left == 0 and 1 or 0 }
