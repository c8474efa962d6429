-- fail: a run that failed ends; what its failure means for job, tenant and engine is decided here.
-- KEYS[1]  the prefix of every key
-- ARGV     key, token, kind of failure, error's kind, error's message, retry after (ms), a random number
--          in [0, 1), backoff base and cap (ms), most attempts, failures in a row that open a breaker,
--          first and longest pause between probes (ms), grace for newer envelopes (ms), longest wait
--          since first (ms), history limit, dead limit
-- Returns  nil when the token is stale, and then nothing is written; else "waiting" | "parked" | "dead",
--          due (ms), 1 when this opened a breaker
-- Cost     O(log n) in jobs waiting
-- include: clock names tally lanes wide records breakers flight
local key, token, kind, ekind, message = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local retry_after, random, base, cap = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
local max_attempts, threshold, probe, probe_cap =
  tonumber(ARGV[10]), tonumber(ARGV[11]), tonumber(ARGV[12]), tonumber(ARGV[13])
local grace, max_wait = tonumber(ARGV[14]), tonumber(ARGV[15])
local limits = { max_wait = max_wait, history = tonumber(ARGV[16]), dead = tonumber(ARGV[17]) }
local KEYS_IN_A_ROW, STREAK_LIFE = 3, 86400000

local root, id = split(key)
local job = root and read_job(key) or {}
if job.state ~= "running" or job.token ~= token or is_broken(job) then return false end
local now, attempts = clock(), tonumber(job.attempts)
local own, wide = ids_of(root, job.profile)
count_total("run_ms", job.queue, job.profile, now - job.begun)

local function reply(state, due, opened)
  write_tallies()
  return { state, due, opened and 1 or 0 }
end

local function give_up(opened)
  local state, due = die(key, root, id, job, ekind, message, limits, now)
  return reply(state, due, opened)
end

-- It will run again; what failed stays in view meanwhile.
local function keep(state, series, changes, opened)
  -- A newer release's job comes by for a day: once in the history is enough.
  if kind ~= "newer" or not job.newer then
    local error = { kind = ekind, message = message }
    chronicle(entry_of(key, scope_of(root, id, job), job, "retry", now, { error = error }), limits.history)
  end
  if kind ~= "shutdown" and kind ~= "newer" then count_total("retried", job.queue, job.profile) end
  -- That its worker stopped is no fault of the job's, and hides none it had.
  if kind ~= "shutdown" then changes.ekind, changes.error = ekind, message end
  return reply(state, go_back(key, root, id, job, state, series, changes, now), opened)
end

-- One more transient failure at the profile: is it one too many, from keys enough?
local function is_streak()
  local streak = P .. "streak:" .. job.profile
  local failures = call("HINCRBY", streak, "failures", 1)
  -- Hashed, so that it says nothing of a tenant that is erased.
  if call("HLEN", streak) <= KEYS_IN_A_ROW then call("HSET", streak, redis.sha1hex(key), 1) end
  call("PEXPIRE", streak, STREAK_LIFE)
  return failures >= threshold and call("HLEN", streak) > KEYS_IN_A_ROW
end

if kind == "permanent" then return give_up() end

if kind == "shutdown" then
  return keep("waiting", next_series(job, true, max_wait), { attempts = attempts - 1 })
end

if kind == "newer" then
  local since = tonumber(job.newer) or now
  if now - since >= grace then return give_up() end
  return keep("waiting", next_series(job, true, max_wait), { attempts = attempts - 1, newer = since, nb = now + probe })
end

if kind == "credential" or kind == "unreachable" then
  local opened = open_breaker(kind == "credential" and own or wide, root, message, now, probe, probe_cap)
  return keep("parked", next_series(job, false, max_wait), { attempts = attempts - 1 }, opened)
end

if kind == "transient" or kind == "throttled" then
  local opened = false
  if is_streak() then
    opened = open_breaker(wide, root, message, now, probe, probe_cap)
    call("DEL", P .. "streak:" .. job.profile)
  end
  -- The outage is the profile's, not the job's.
  if open_breaker_of(root, job.profile) then
    return keep("parked", next_series(job, false, max_wait), { attempts = attempts - 1 }, opened)
  end
end

if kind ~= "throttled" and attempts >= max_attempts then return give_up() end
if kind == "throttled" then count_total("throttled", job.queue, job.profile) end
local pause = math.max(retry_after, math.floor(random * math.min(cap, base * 2 ^ (attempts - 1))))
return keep("waiting", next_series(job, false, max_wait), {
  attempts = kind == "throttled" and attempts - 1 or attempts, nb = now + pause,
})
