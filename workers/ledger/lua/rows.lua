-- rows: what is kept of jobs, finished ones too.
-- KEYS[1]  the prefix of every key
-- ARGV     keys
-- Returns  for each: its fields as name, value, ... (empty when unknown), its scope, the end of its lease
--          (ms, "" for none)
-- Cost     O(log n) a key in jobs in flight; writes nothing
-- include: names
local reply = {}
for _, key in ipairs(ARGV) do
  local root, id = split(key)
  local job, n = root and read_job(key) or {}, #reply
  if is_broken(job) then job = {} end
  local flat, scope, ends = {}, "", ""
  for field, value in pairs(job) do
    flat[#flat + 1] = field
    flat[#flat + 1] = value
  end
  if job.state == "queued" or job.state == "running" then
    ends = call("ZSCORE", P .. job.state .. ":" .. job.queue, key) or ""
  end
  if job.state then scope = scope_of(root, id, job) end
  if scope == "" and job.history then
    local entry = call("ZRANGEBYSCORE", P .. "history", job.history, job.history)[1]
    scope = entry and cjson.decode(entry).scope or ""
  end
  reply[n + 1], reply[n + 2], reply[n + 3] = flat, scope, ends
end
return reply
