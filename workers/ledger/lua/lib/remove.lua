-- remove: a job out of every index of what is owed, from any state; its hash and text are its caller's.
-- False when it is in none: over, or unknown.
local function remove(key, root, id, job)
  local state = job.state
  if is_broken(job) then return false end
  if state == "waiting" then
    take(job.queue, root .. "|" .. job.profile, id)
    call("ZREM", P .. "express:" .. job.queue, key)
    move_count(job.queue, job.profile, "waiting", nil)
  elseif state == "parked" then
    unpark(job.queue, root, job.profile, id)
  elseif state == "queued" or state == "running" then
    leave_flight(key, root, job)
  elseif state == "dead" and call("ZREM", P .. "dead", key) == 1 then
    move_count(job.queue, job.profile, "dead", nil)
  else
    return false
  end
  return true
end
