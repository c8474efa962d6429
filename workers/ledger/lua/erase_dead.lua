-- erase_dead: dead letters of a root, without a trace.
-- KEYS[1]  the prefix of every key
-- ARGV     keys
-- Returns  how many were dead letters
-- Cost     O(log n) a key
-- include: clock names tally lanes wide records breakers flight remove
local erased = 0
for _, key in ipairs(ARGV) do
  local root, id = split(key)
  local job = read_job(key)
  if job.state == "dead" then
    if remove(key, root, id, job) then erased = erased + 1 end
    drop_text(root, id, job)
    call("DEL", P .. "job:" .. key)
  end
end
write_tallies()
return erased
