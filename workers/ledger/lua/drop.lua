-- drop: a job is cancelled wherever it is; a run's token is void at once and its key free.
-- KEYS[1]  the prefix of every key
-- ARGV     key, history limit
-- Returns  the state it was found in, "" when unknown; one that is over, except a dead letter, is not touched
-- Cost     O(log n) in jobs waiting
-- include: clock names tally lanes wide records breakers flight remove
local key, now = ARGV[1], clock()
local root, id = split(key)
local job = root and read_job(key) or {}
if not remove(key, root, id, job) then return job.state or "" end
local number = chronicle(entry_of(key, scope_of(root, id, job), job, "cancelled", now, {}), tonumber(ARGV[2]))
count_total("cancelled", job.queue, job.profile)
finish(key, root, id, job, "cancelled", number, now, "outcome", "cancelled")
write_tallies()
return job.state
