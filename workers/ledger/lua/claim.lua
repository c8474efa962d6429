-- claim: due jobs of a queue, root by root, each with a fencing token and a queued lease; a worker that
-- says so begins one at once.
-- KEYS[1]  the prefix of every key
-- ARGV     queue, jobs wanted, most claimed and not begun in the queue, most in flight of a root, queued
--          lease (ms), history limit; to begin one besides: worker (else ""), its lease (ms), longest
--          wait since first (ms), how many later ones may pass by a claimed job before it is begun
-- Returns  folded, parked, the run as `begin` returns it or nil, then for each job claimed: key, token,
--          "high" | "normal", profile, scope
-- Cost     O(k log n) for k claimed, folded and parked, however many wait, and a look at the first 1,000 runs
--          that operators asked for
-- include: clock names tally lanes wide records breakers flight start restore
local queue, now, lease, history_limit = ARGV[1], clock(), tonumber(ARGV[5]), tonumber(ARGV[6])
local root_cap, worker, run_lease = tonumber(ARGV[4]), ARGV[7], tonumber(ARGV[8])
local ring, heads, asleep = P .. "ring:" .. queue, P .. "heads:" .. queue, P .. "asleep:" .. queue
local queued, express = P .. "queued:" .. queue, P .. "express:" .. queue
local room = math.max(0, math.min(tonumber(ARGV[2]), tonumber(ARGV[3]) - call("ZCARD", queued)))
local reply, folded, parked = { 0, 0, false }, 0, 0
-- The one begun at once needs no room among those not begun.
local begins = worker ~= ""
if begins then room = room + 1 end
if room == 0 then return reply end

-- Parties woken, parties looked at, and due jobs looked at for what a wide one covers: each bounds a call,
-- and what it leaves is found by the next.  More wake than are needed, so that none sleeps on for long.
local wakes, visits, fold_looks = room + 8, 2 * room + 64, 256
local EXPRESS_LIMIT, FOLD_SCAN, WAKE_TOGETHER = 1000, 64, 500
local broken = call("EXISTS", P .. "breakers") == 1
local trials = call("EXISTS", P .. "trials") == 1
local counter = call("HMGET", P .. "counter", "turn", "token")
local first_turn = tonumber(counter[1]) or 0
local last_turn = first_turn
-- A ledger that was lost starts from the time: a run that outlived it must not meet its own token again.
local last_token = tonumber(counter[2]) or now

local function next_turn()
  last_turn = last_turn + 1
  return last_turn
end

-- The party gave or has nothing: back to the end of the ring while it has due work, else asleep or gone.
local function end_turn(party)
  local first = call("ZRANGE", P .. "due:" .. queue .. "|" .. party, 0, 0, "WITHSCORES")
  if not first[1] then return clear_head(queue, party) end
  call("ZADD", heads, first[2], party)
  if tonumber(first[2]) <= now then return call("ZADD", ring, next_turn(), party) end
  call("ZREM", ring, party)
  call("ZADD", asleep, first[2], party)
end

-- Nothing of the root may be claimed now: its party comes back when a slot frees or, held back by a breaker
-- on trial that lets one run through, when the trial ends.
local function hold_back(party, root, profile)
  local held = call("SCARD", P .. "held:" .. root)
  local on_trial = trials and held >= 1 and is_on_trial(root, profile)
  if held < root_cap and not on_trial then return false end
  call("ZREM", ring, party)
  call("SADD", P .. "capped:" .. root, queue .. "|" .. profile)
  return true
end

local function hand_out(root, profile, id, priority)
  local key = key_of(root, id)
  local name = P .. "job:" .. key
  local token = last_token + 1
  last_token, last_turn = token, last_turn + 1
  call("ZREM", P .. "due:" .. queue .. "|" .. root .. "|" .. profile, id)
  call("SADD", P .. "held:" .. root, key)
  count_total("claimed", queue, profile)
  room = room - 1
  if begins then
    begins = false
    move_count(queue, profile, "waiting", nil)
    reply[3] = start(key, root, id, read_job(key), token, now, run_lease, worker, "claimed", now)
    return
  end
  call("HSET", name, "state", "queued", "token", token, "claimed", now)
  call("ZADD", queued, now + lease, key)
  move_count(queue, profile, "waiting", "queued")
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = key, token, priority, profile
  reply[n + 5] = scope_of(root, id, { scope = not is_build(id) and call("HGET", name, "scope") or nil })
end

-- `since`: the claim whose run serves it.
local function fold(root, profile, id, into, since)
  local key = key_of(root, id)
  local job = read_job(key)
  call("ZREM", P .. "due:" .. queue .. "|" .. root .. "|" .. profile, id)
  local number = chronicle(entry_of(key, scope_of(root, id, job), job, "folded", now, { into = into }), history_limit)
  finish(key, root, id, job, "folded", number, now, "into", into, "since", since, "outcome", "folded")
  move_count(queue, profile, "waiting", nil)
  count_total("folded", queue, profile)
  folded = folded + 1
end

-- A wide build is claimed: due ones it covers, among the first of the lane, go with it.  The others
-- are folded when their own turn comes while it is in flight.
local function fold_covered(root, profile, id)
  local key = key_of(root, id)
  local coverage = call("HGET", P .. "job:" .. key, "coverage")
  if not coverage then return end
  local lane = P .. "due:" .. queue .. "|" .. root .. "|" .. profile
  local looks = math.min(FOLD_SCAN, fold_looks)
  if looks <= 0 then return end
  for _, other in ipairs(call("ZRANGEBYSCORE", lane, "-inf", now, "LIMIT", 0, looks)) do
    fold_looks = fold_looks - 1
    if is_build(other) then
      local narrow = read_text(root, other)
      local whole = narrow ~= "" and covers(coverage, narrow) and not is_broken(read_job(key_of(root, other)))
      if whole then fold(root, profile, other, key, now) end
    end
  end
end

-- The build that serves what `id` asks for: "flight" and its key and claim when it is in the air and
-- was claimed after `id` was due and last enqueued; "waiting" and its id when it is due as well; else nil.
local function serving(root, profile, id, coverage, passed)
  local due, last = unpack(call("HMGET", P .. "job:" .. key_of(root, id), "due", "last"))
  for _, other in ipairs(coverers(root .. "|" .. profile, coverage, id)) do
    local key = key_of(root, other)
    local job = read_job(key)
    local state = job.state
    if not is_broken(job) and job.coverage and covers(job.coverage, coverage) then
      local in_flight = state == "queued" or state == "running"
      if in_flight and tonumber(job.claimed) > math.max(tonumber(due), tonumber(last)) then
        return "flight", key, job.claimed
      end
      if state == "waiting" and job.queue == queue and tonumber(job.due) <= now and not passed[other] then
        return "waiting", other, job.coverage
      end
    end
  end
end

-- Hand out a due job, or the widest due build that covers it in its place.
local function hand_out_or_fold(root, profile, id)
  if not is_build(id) or call("EXISTS", P .. "wide:" .. root .. "|" .. profile) == 0 then
    return hand_out(root, profile, id, "normal")
  end
  local coverage = read_text(root, id)
  local passed, chain = { [id] = true }, { id }
  -- Two builds may cover each other: neither is passed twice, so one of them is left to run.
  while coverage ~= "" and #chain <= 8 do
    local how, other, known = serving(root, profile, chain[#chain], coverage, passed)
    if how == "flight" and #chain == 1 then return fold(root, profile, id, other, known) end
    if how ~= "waiting" then break end
    passed[other], chain[#chain + 1], coverage = true, other, known
  end
  local chosen = chain[#chain]
  hand_out(root, profile, chosen, "normal")
  for i = 1, #chain - 1 do fold(root, profile, chain[i], key_of(root, chosen), now) end
  fold_covered(root, profile, chosen)
end

local function park_due(root, profile, id, due)
  call("ZREM", P .. "due:" .. queue .. "|" .. root .. "|" .. profile, id)
  call("HSET", P .. "job:" .. key_of(root, id), "state", "parked")
  move_count(queue, profile, "waiting", nil)
  park(queue, root, profile, id, due, now)
  parked = parked + 1
end

-- The longest claimed and not begun, when at least so many were claimed after it.
-- Returns whether it was parked instead, and its slot is free.
local function begin_queued(passed_by)
  local key = call("ZRANGE", queued, 0, 0)[1]
  local job = key and read_job(key) or {}
  -- One that says otherwise, or nothing, is the reaper's to find.
  if job.state ~= "queued" or is_broken(job) or last_token - job.token < passed_by then return end
  local root, id = split(key)
  reply[3] = start_queued(key, root, id, job, now, run_lease, worker, tonumber(ARGV[9]))
  if reply[3] then
    begins, room = false, room - 1
  else
    parked = parked + 1
    return true
  end
end

-- A claimed job whose doorbell nobody had time for comes before what is claimed after it.
if begins then begin_queued(tonumber(ARGV[10])) end

-- What an operator asked to run, whatever its delay and its breaker say.  A root at its cap is asked about
-- once, so that whatever waits for it is cheap to pass by.
local function claim_express()
  local full = {}
  for _, key in ipairs(call("ZRANGE", express, 0, EXPRESS_LIMIT - 1)) do
    if room == 0 then return end
    local root, id = split(key)
    if full[root] == nil then full[root] = call("SCARD", P .. "held:" .. root) >= root_cap end
    if not full[root] then
      local job = read_job(key)
      call("ZREM", express, key)
      -- Its run may have been another claim's since, and what waits now be nobody's wish.
      if job.state == "waiting" and job.forced and not is_broken(job) then
        hand_out(root, job.profile, id, "high")
        place(queue, root .. "|" .. job.profile)
        full[root] = nil
      end
    end
  end
end

local function wake()
  while wakes > 0 do
    local woken = call("ZRANGEBYSCORE", asleep, "-inf", now, "LIMIT", 0, math.min(wakes, WAKE_TOGETHER))
    if not woken[1] then return end
    local turns = {}
    for i, party in ipairs(woken) do
      turns[2 * i - 1], turns[2 * i] = next_turn(), party
    end
    call("ZREM", asleep, unpack(woken))
    call("ZADD", ring, "NX", unpack(turns))
    wakes = wakes - #woken
  end
end

-- What is in a lane waits, even when its hash is broken; false when its hash says otherwise.
-- Returns, of one that waits, whether an operator asked for it as well.
local function check_waiting(root, profile, id, due)
  local key = key_of(root, id)
  -- Of almost all jobs this is all there is to look at.
  local state, forced, its_queue, its_profile, its_due, first, last, delay =
    read_fields(key, "state", "forced", "queue", "profile", "due", "first", "last", "delay")
  if state == "waiting" and its_queue and its_profile and its_due and first and last and delay then return true, forced end
  if is_broken(read_job(key)) then
    restore(key, root, id, queue, profile, due, now)
    return true
  end
  call("ZREM", P .. "due:" .. queue .. "|" .. root .. "|" .. profile, id)
  move_count(queue, profile, "waiting", nil)
  return false
end

local function claim_waiting()
  claim_express()
  wake()
  while room > 0 and visits > 0 do
    local party = call("ZRANGE", ring, 0, 0)[1]
    if not party then break end
    visits = visits - 1
    local root, profile = string.match(party, "^(.-)|(.*)$")
    local first = call("ZRANGE", P .. "due:" .. queue .. "|" .. party, 0, 0, "WITHSCORES")
    local id, due = first[1], tonumber(first[2])
    if not id or due > now then
      end_turn(party)
    else
      -- What an operator asked to run waits for its root's slot, not for its breaker.
      local waits, forced = check_waiting(root, profile, id, due)
      if not waits then
        end_turn(party)
      elseif broken and not forced and open_breaker_of(root, profile) then
        park_due(root, profile, id, due)
        end_turn(party)
      elseif not hold_back(party, root, profile) then
        hand_out_or_fold(root, profile, id)
        end_turn(party)
      end
    end
  end
end

claim_waiting()

-- Nothing else is to be done: whoever asks is free, and a doorbell's way takes longer.
-- One that is parked instead leaves its root's slot to what the cap held back.
if begins and begin_queued(0) then claim_waiting() end

if last_turn > first_turn then call("HSET", P .. "counter", "turn", last_turn, "token", last_token) end
write_tallies()
reply[1], reply[2] = folded, parked
return reply
