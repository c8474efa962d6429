"""What operators do to jobs, and what they and hosts read of them."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from redis import Redis as SyncRedis
from redis.asyncio import Redis

from workers.ledger import (
    Coverage,
    Failure,
    FailureKind,
    HistoryView,
    JobError,
    JobState,
    JobView,
    LaneStats,
    Ledger,
    LedgerOptions,
    Outcome,
    Party,
    Priority,
    StatsView,
    Success,
    SyncLedger,
)
from workers.ledger.testing import (
    BELIEFS,
    INGEST,
    START_MS,
    MovableClock,
    a_build,
    an_ingest,
    begin_one,
    claim_one,
    still_ledger,
)
from workers.testing import RedisServer

BROKEN = Failure(FailureKind.PERMANENT, JobError("invalid request", "no such scope"))
EXPRESS = "{tinymemory}:express:" + BELIEFS
START = datetime.fromtimestamp(START_MS / 1000, UTC)


async def kill(ledger: Ledger, n: int, root: str = "team:a") -> None:
    run = await begin_one(ledger, a_build(n, root))
    await ledger.fail(run.lease, BROKEN)


async def test_an_operators_run_ignores_the_delay_and_goes_first(ledger: Ledger) -> None:
    await ledger.enqueue([a_build(n, f"team:{n}") for n in range(5)])
    await ledger.enqueue([a_build(9, "team:z", delay=300)])

    assert await ledger.run_now(a_build(9, "team:z").key) is JobState.WAITING

    [doorbell] = (await ledger.claim(BELIEFS, 1)).doorbells
    assert (doorbell.root, doorbell.priority) == ("team:z", Priority.HIGH)
    assert await ledger.run_now(doorbell.lease.key) is JobState.QUEUED
    assert await ledger.run_now("build:team:q:00") is JobState.UNKNOWN


async def test_an_operators_run_of_a_root_at_its_cap_waits_for_a_slot_and_not_for_the_breaker(
    redis: Redis, ledger: Ledger
) -> None:
    ledger = still_ledger(redis, LedgerOptions(root_concurrency=1))
    run = await begin_one(ledger, a_build(1))
    await ledger.enqueue([a_build(2), a_build(3)])
    await ledger.open_breaker(Party(run.root, "default"), "no credits")
    await ledger.run_now(a_build(2).key)

    assert (await ledger.claim(BELIEFS)).doorbells == ()
    assert (await ledger.status(a_build(2).key)).state is JobState.WAITING

    await ledger.settle(run.lease, Success())
    [doorbell] = (await ledger.claim(BELIEFS)).doorbells
    assert (doorbell.lease.key, doorbell.priority) == (a_build(2).key, Priority.HIGH)
    assert await ledger.begin(doorbell.lease, worker="w") is not None


async def test_an_operators_run_goes_first_however_many_of_a_root_at_its_cap_were_asked_for_before_it(
    redis: Redis, ledger: Ledger
) -> None:
    ledger = still_ledger(redis, LedgerOptions(root_concurrency=1, max_in_flight=2))
    await claim_one(ledger, a_build(0, "team:a"))
    await ledger.enqueue([a_build(n, "team:a", delay=300) for n in range(1, 41)])
    await ledger.enqueue([a_build(n, "team:b") for n in range(10)])
    await ledger.enqueue([a_build(99, "team:b", delay=300)])
    for n in range(1, 41):
        await ledger.run_now(a_build(n, "team:a").key)
    await ledger.run_now(a_build(99, "team:b").key)

    [doorbell] = (await ledger.claim(BELIEFS)).doorbells

    assert doorbell.lease.key == a_build(99, "team:b").key
    assert doorbell.priority is Priority.HIGH


async def test_operators_runs_begin_in_the_order_asked_for_and_no_more_than_there_is_room_for(
    redis: Redis, ledger: Ledger, clock: MovableClock
) -> None:
    ledger = still_ledger(redis, LedgerOptions(max_in_flight=3))
    asked = [a_build(1, f"team:{name}", delay=300) for name in "zyxwv"]
    await ledger.enqueue(asked)
    for job in asked:
        await ledger.run_now(job.key)
        await clock.advance(1)

    some = (await ledger.claim(BELIEFS, 2)).doorbells
    full = (await ledger.claim(BELIEFS)).doorbells
    for doorbell in (*some, *full):
        await ledger.begin(doorbell.lease, worker="w")
    rest = (await ledger.claim(BELIEFS)).doorbells

    claimed = [[doorbell.root for doorbell in doorbells] for doorbells in (some, full, rest)]
    assert claimed == [["team:z", "team:y"], ["team:x"], ["team:w", "team:v"]]
    assert await redis.exists(EXPRESS) == 0


async def test_i2_an_operators_run_that_began_by_its_turn_does_not_begin_again(
    redis: Redis, ledger: Ledger
) -> None:
    ledger = still_ledger(redis, LedgerOptions(root_concurrency=2))
    for n in (0, 1):
        await claim_one(ledger, a_build(n))
    # More of a root at its cap than a claim looks at; written here, as asking for each takes seconds.
    await redis.zadd(EXPRESS, {a_build(n).key: START_MS - 1 for n in range(2, 1002)})
    behind = a_build(1, "team:b", delay=300)
    await ledger.enqueue([behind])
    await ledger.run_now(behind.key)

    [doorbell] = (await ledger.claim(BELIEFS)).doorbells
    run = await ledger.begin(doorbell.lease, worker="w")
    await redis.zrem(EXPRESS, a_build(2).key)
    again = await ledger.claim(BELIEFS)

    assert run is not None
    assert run.lease.key == behind.key
    assert again.doorbells == ()
    assert await ledger.renew([run.lease]) == [True]


async def test_i4_an_operators_run_is_one_run_whoever_claims_it(redis: Redis, ledger: Ledger) -> None:
    ledger = still_ledger(redis, LedgerOptions(root_concurrency=1))
    await claim_one(ledger, a_build(1))
    asked_for = a_build(2, profile="other", delay=300)
    await ledger.enqueue([asked_for])
    await ledger.run_now(asked_for.key)
    await ledger.open_breaker(Party("team:a", "default"), "no credits")

    # Parked as it would begin, the claimed job leaves its slot in the middle of a claim.
    run, _ = await ledger.claim_and_begin(BELIEFS, worker="w")
    await ledger.enqueue([asked_for])
    assert run is not None
    await ledger.settle(run.lease, Success())
    claimed = await ledger.claim(BELIEFS)

    assert run.lease.key == asked_for.key
    assert claimed.doorbells == ()
    assert (await ledger.status(asked_for.key)).state is JobState.WAITING


async def test_an_operators_wish_is_for_one_run_and_the_next_waits_for_the_breaker(
    ledger: Ledger, clock: MovableClock
) -> None:
    await ledger.enqueue([a_build(1, delay=300), a_build(2, delay=300)])
    for n in (1, 2):
        await ledger.run_now(a_build(n).key)
    failing, written_to = (doorbell.lease for doorbell in (await ledger.claim(BELIEFS)).doorbells)
    for lease in (failing, written_to):
        await ledger.begin(lease, worker="w")
    await ledger.fail(failing, Failure(FailureKind.ATTEMPT, JobError("engine error", "broken")))
    await ledger.enqueue([a_build(2, delay=300)])
    await ledger.settle(written_to, Success())

    await ledger.open_breaker(Party("team:a", "default"), "no credits")
    await clock.advance(900)
    claimed = await ledger.claim(BELIEFS)

    assert (claimed.doorbells, claimed.parked) == ((), 2)


async def test_an_operators_run_of_a_dead_job_is_a_new_series(ledger: Ledger) -> None:
    await kill(ledger, 1)

    assert await ledger.run_now(a_build(1).key) is JobState.DEAD
    assert await ledger.dead() == []
    assert await ledger.retry([a_build(1).key]) == [False]
    [doorbell] = (await ledger.claim(BELIEFS)).doorbells
    run = await ledger.begin(doorbell.lease, worker="w")

    assert run is not None
    assert (run.attempts, doorbell.priority) == (1, Priority.HIGH)


async def test_an_operators_run_is_not_put_off_by_the_retry_it_came_before(
    ledger: Ledger, clock: MovableClock
) -> None:
    run = await begin_one(ledger, a_build())
    await ledger.fail(run.lease, Failure(FailureKind.TRANSIENT, JobError("x", "y"), retry_after=5000))
    await clock.advance(10)
    await ledger.run_now(run.lease.key)
    [doorbell] = (await ledger.claim(BELIEFS)).doorbells
    await ledger.begin(doorbell.lease, worker="w")

    failed = await ledger.fail(
        doorbell.lease, Failure(FailureKind.SHUTDOWN, JobError("shutdown", "stopping"))
    )

    assert failed is not None
    assert failed.due_at == START + timedelta(seconds=10)


async def test_an_operators_run_is_due_from_when_it_was_asked_for(
    ledger: Ledger, clock: MovableClock
) -> None:
    await ledger.enqueue([a_build()])
    await clock.advance(50)
    overdue = await ledger.stats()
    await ledger.run_now(a_build().key)

    assert (overdue.due, overdue.oldest_due_age_s) == (1, 50.0)
    stats = await ledger.stats()
    assert (stats.due, stats.oldest_due_age_s) == (1, 0.0)


async def test_a_job_dropped_before_it_ran_leaves_no_wish_and_nothing_parked(
    redis: Redis, ledger: Ledger
) -> None:
    await ledger.enqueue([a_build(1), a_build(2, delay=300)])
    await ledger.open_breaker(Party("team:a", "default"), "no credits")
    assert (await ledger.claim(BELIEFS)).parked == 1
    await ledger.run_now(a_build(2).key)

    assert await ledger.drop(a_build(1).key) is JobState.PARKED
    assert await ledger.drop(a_build(2).key) is JobState.WAITING

    assert await redis.exists(EXPRESS, f"{{tinymemory}}:parked:{BELIEFS}|team:a|default") == 0
    assert (await ledger.stats()).parked == 0
    assert await ledger.close_breaker("default", "team:a") == 0


async def test_a_retried_dead_letter_has_a_new_series_of_attempts(ledger: Ledger) -> None:
    await kill(ledger, 1)

    assert await ledger.retry([a_build(1).key, a_build(2).key]) == [True, False]

    [doorbell] = (await ledger.claim(BELIEFS)).doorbells
    run = await ledger.begin(doorbell.lease, worker="w")
    assert run is not None
    assert (run.attempts, run.envelope) == (1, '{"n":1}')
    assert await ledger.dead() == []


async def test_a_retried_dead_letter_is_due_at_once_and_nothing_of_its_death_stays(
    ledger: Ledger, clock: MovableClock
) -> None:
    await begin_one(ledger, a_build(1))
    await clock.advance(120)
    await ledger.reap()
    [doorbell] = (await ledger.claim(BELIEFS)).doorbells
    await ledger.begin(doorbell.lease, worker="w")
    await ledger.fail(doorbell.lease, BROKEN)
    [letter] = await ledger.dead()
    await clock.advance(10)

    await ledger.retry([a_build(1).key])

    job = await ledger.show(a_build(1).key)
    assert (letter.attempts, letter.losses) == (2, 1)
    assert job is not None
    assert (job.state, job.attempts, job.losses, job.error) == (JobState.WAITING, 0, 0, None)
    assert job.due_at == START + timedelta(seconds=130)
    stats = await ledger.stats()
    assert (stats.waiting, stats.due, stats.dead, stats.oldest_due_age_s) == (1, 1, 0, 0.0)


async def test_r31_retrying_every_dead_letter_leaves_live_jobs_alone(ledger: Ledger) -> None:
    await kill(ledger, 1)
    await kill(ledger, 2)
    await ledger.enqueue([a_build(1, delay=300)])

    letters = [letter.key for letter in await ledger.dead()]
    retried = await ledger.retry([*letters, a_build(1).key])

    assert letters == [a_build(2).key]
    assert retried == [True, False]


async def test_r09_a_dropped_job_never_runs_and_its_record_stays_cancelled(
    ledger: Ledger, clock: MovableClock
) -> None:
    waiting, queued = a_build(1), a_build(2)
    lease = await claim_one(ledger, queued)
    await ledger.enqueue([waiting])

    assert await ledger.drop(waiting.key) is JobState.WAITING
    assert await ledger.drop(queued.key) is JobState.QUEUED

    await clock.advance(10_000)
    await ledger.reap()
    assert await ledger.begin(lease, worker="w") is None
    assert (await ledger.claim(BELIEFS)).doorbells == ()
    for job in (waiting, queued):
        assert (await ledger.status(job.key)).state is JobState.CANCELLED
    assert {entry.outcome for entry in await ledger.history()} == {Outcome.CANCELLED}


async def test_dropping_a_run_voids_its_token_and_frees_its_key(ledger: Ledger) -> None:
    run = await begin_one(ledger, a_build())

    assert await ledger.drop(run.lease.key) is JobState.RUNNING

    assert await ledger.renew([run.lease]) == [False]
    assert await ledger.settle(run.lease, Success(follow_ups=(a_build(5),))) is None
    again = await begin_one(ledger, a_build())
    assert again.lease.token > run.lease.token
    assert (await ledger.status(a_build(5).key)).state is JobState.UNKNOWN


async def test_a_dropped_dead_letter_is_gone_and_what_is_over_stays(ledger: Ledger) -> None:
    await kill(ledger, 1)
    done = await begin_one(ledger, a_build(2))
    await ledger.settle(done.lease, Success())

    assert await ledger.drop(a_build(1).key) is JobState.DEAD
    assert await ledger.drop(a_build(2).key) is JobState.DONE

    assert await ledger.dead() == []
    assert (await ledger.status(a_build(1).key)).state is JobState.CANCELLED
    assert (await ledger.status(a_build(2).key)).state is JobState.DONE


async def everything(redis: Redis) -> list[list[Any]]:
    """Every key with its content."""
    script = """
    local all = {}
    for _, key in ipairs(redis.call("KEYS", "*")) do
      local kind = redis.call("TYPE", key).ok
      local read = { hash = "HGETALL", set = "SMEMBERS", string = "GET" }
      all[#all + 1] = { key, read[kind] and redis.call(read[kind], key) or redis.call("ZRANGE", key, 0, -1) }
    end
    return all
    """
    return await redis.eval(script, 0)


async def keys_of(redis: Redis, root: str) -> set[str]:
    return {name for name, _ in await everything(redis) if root in name}


async def test_erasing_a_root_leaves_no_trace_of_it_and_every_one_of_others(
    ledger: Ledger, redis: Redis
) -> None:
    for root in ("team:a", "team:ab"):
        await kill(ledger, 1, root)
        done = await begin_one(ledger, a_build(2, root))
        await ledger.settle(done.lease, Success())
        running = await begin_one(ledger, a_build(3, root))
        await claim_one(ledger, a_build(4, root))
        await ledger.enqueue([a_build(n, root, delay=60) for n in range(5, 500)])
        await ledger.enqueue([an_ingest(n, root, batch=f"{root}-batch") for n in range(3)])
        await ledger.open_breaker(Party(root, "default"), "no credits")
    others = await keys_of(redis, "team:ab")

    erased = await ledger.erase("team:a")

    jobs, runs = 501, 2
    assert erased == jobs + runs
    assert await ledger.renew([running.lease]) == [True]
    assert await keys_of(redis, "team:ab") == others
    for name, *content in await everything(redis):
        assert not re.search(r"team:a[:|]", f"{name} {content}"), name
    assert await ledger.jobs(root="team:a") == []
    assert await ledger.history(root="team:a") == []
    assert len(await ledger.history(root="team:ab")) == 2


async def test_jobs_are_listed_by_due_time_whatever_their_root(ledger: Ledger, clock: MovableClock) -> None:
    for n in range(300):
        await ledger.enqueue([a_build(n, f"team:{n % 37}", delay=(n * 7919) % 1000 + 1)])
    due = sorted((n * 7919) % 1000 + 1 for n in range(300))

    first = await ledger.jobs(limit=50)
    every = await ledger.jobs(limit=1000)
    one = await ledger.jobs(root="team:5", limit=1000)

    assert [(job.due_at - START).total_seconds() for job in first] == due[:50]
    assert [(job.due_at - START).total_seconds() for job in every] == due
    assert [job.key for job in one] == [job.key for job in every if job.root == "team:5"]


async def test_a_listing_has_what_is_owed_and_not_what_is_over(ledger: Ledger) -> None:
    await kill(ledger, 1)
    done = await begin_one(ledger, a_build(2))
    await ledger.settle(done.lease, Success())
    await begin_one(ledger, a_build(3))
    await claim_one(ledger, a_build(4))
    await ledger.enqueue([a_build(5, delay=60)])

    states = {job.key: job.state for job in await ledger.jobs()}

    assert states == {
        a_build(3).key: JobState.RUNNING,
        a_build(4).key: JobState.QUEUED,
        a_build(5).key: JobState.WAITING,
    }
    assert [job.key for job in await ledger.jobs(states=[JobState.DEAD])] == [a_build(1).key]


async def test_views_have_the_field_names_operators_script_against(ledger: Ledger) -> None:
    job = """
        key type root scope profile state due_at first_enqueued_at last_enqueued_at
        merged attempts losses error
    """
    history = (
        "key type root scope profile outcome built scopes stored attempts merged waited_s ran_s lag_s worker "
        "finished_at error into"
    )
    stats = (
        "waiting due queued running parked dead oldest_due_age_s done_total retried_total throttled_total "
        "dead_total merged_total breakers"
    )
    await ledger.enqueue([a_build()])

    [view] = await ledger.jobs()

    assert list(JobView.model_fields) == job.split()
    assert list(HistoryView.model_fields) == history.split()
    assert list(StatsView.model_fields) == stats.split()
    assert view.model_dump(mode="json") == {
        "key": "build:team:a:00000000000000000001",
        "type": "build_beliefs",
        "root": "team:a",
        "scope": "team:a/agent:a1 [conversation]",
        "profile": "default",
        "state": "waiting",
        "due_at": "2027-01-15T08:00:00Z",
        "first_enqueued_at": "2027-01-15T08:00:00Z",
        "last_enqueued_at": "2027-01-15T08:00:00Z",
        "merged": 0,
        "attempts": 0,
        "losses": 0,
        "error": None,
    }


async def test_a_history_record_says_how_a_run_went(ledger: Ledger, clock: MovableClock) -> None:
    await ledger.enqueue([a_build(delay=10)])
    await clock.advance(5)
    await ledger.enqueue([a_build(delay=10)])
    await clock.advance(12)
    [doorbell] = (await ledger.claim(BELIEFS)).doorbells
    await clock.advance(1)
    await ledger.begin(doorbell.lease, worker="worker-1")
    await clock.advance(4)
    await ledger.settle(doorbell.lease, Success(built=7, scopes=2))

    [run] = await ledger.history(key=doorbell.lease.key)

    assert (run.outcome, run.built, run.scopes, run.stored) == (Outcome.DONE, 7, 2, None)
    assert (run.attempts, run.merged, run.worker) == (1, 1, "worker-1")
    assert (run.waited_s, run.ran_s, run.lag_s) == (18.0, 4.0, 3.0)
    detail = await ledger.show(doorbell.lease.key)
    assert detail is not None
    assert (detail.state, detail.outcome, detail.scope) == (JobState.DONE, Outcome.DONE, run.scope)
    assert detail.run == doorbell.lease.task_id


async def test_history_and_dead_letters_are_bounded_and_evictions_counted(
    ledger: Ledger, redis: Redis
) -> None:
    ledger = still_ledger(redis, LedgerOptions(history_limit=10, dead_limit=5))
    for n in range(20):
        await kill(ledger, n)

    assert len(await ledger.history()) == 10
    assert [letter.key for letter in await ledger.dead()] == [a_build(n).key for n in (19, 18, 17, 16, 15)]
    [lane] = await ledger.lanes()
    assert (lane.dead, lane.dead_total) == (5, 20)
    assert (lane.dead_evicted_total, lane.history_evicted_total) == (15, 10)
    # A letter that was pushed out is answered for as long as the history knows it.
    assert (await ledger.status(a_build(12).key)).state is JobState.DEAD
    assert (await ledger.status(a_build(3).key)).state is JobState.UNKNOWN
    assert await ledger.retry([a_build(12).key]) == [False]


async def test_a_job_is_remembered_as_long_as_the_history_knows_its_last_run(
    redis: Redis, ledger: Ledger
) -> None:
    ledger = still_ledger(redis, LedgerOptions(history_limit=2))
    for n in (1, 1, 2):
        run = await begin_one(ledger, a_build(n))
        await ledger.settle(run.lease, Success())
    remembered = (await ledger.status(a_build(1).key)).state
    run = await begin_one(ledger, a_build(3))
    await ledger.settle(run.lease, Success())

    assert remembered is JobState.DONE
    assert (await ledger.status(a_build(1).key)).state is JobState.UNKNOWN


async def test_a_lowered_limit_is_reached_by_pruning(ledger: Ledger, redis: Redis) -> None:
    for n in range(30):
        await kill(ledger, n)

    await still_ledger(redis, LedgerOptions(history_limit=10, dead_limit=5)).prune()

    assert len(await ledger.history()) == 10
    assert len(await ledger.dead()) == 5


async def test_stats_count_the_whole_ledger(ledger: Ledger, clock: MovableClock) -> None:
    await kill(ledger, 1)
    await begin_one(ledger, a_build(2))
    await ledger.enqueue([a_build(n, delay=60) for n in (5, 6, 5)])
    await ledger.enqueue([an_ingest(n) for n in range(6)])
    await clock.advance(20)
    await ledger.claim(INGEST)

    stats = await ledger.stats()

    # The cap of four holds three ingests back; they are due all the same.
    assert (stats.waiting, stats.due, stats.queued, stats.running, stats.dead) == (5, 3, 3, 1, 1)
    assert (stats.oldest_due_age_s, stats.merged_total, stats.dead_total) == (20.0, 1, 1)
    lanes = {lane.queue: lane for lane in await ledger.lanes()}
    assert (lanes[BELIEFS].waiting, lanes[INGEST].due, lanes[INGEST].oldest_due_age_s) == (2, 3, 20.0)
    [root] = await ledger.stats_by_root()
    assert (root.root, root.waiting, root.due, root.in_flight) == ("team:a", 5, 3, 4)


async def test_totals_of_a_newer_release_are_no_concern_of_this_one(redis: Redis, ledger: Ledger) -> None:
    await ledger.enqueue([a_build(1)])
    await redis.hincrby("{tinymemory}:totals", f"sung|{BELIEFS}|default", 3)

    assert (await ledger.stats()).waiting == 1


async def test_every_total_counts_what_it_is_named_for(ledger: Ledger, clock: MovableClock) -> None:
    merged, failing = a_build(1), a_build(2)
    await ledger.enqueue([merged, merged])
    await clock.advance(3)
    [doorbell] = (await ledger.claim(BELIEFS)).doorbells
    await ledger.begin(doorbell.lease, worker="w")
    await ledger.enqueue([merged, merged])
    await clock.advance(2)
    await ledger.settle(doorbell.lease, Success())
    await ledger.drop(merged.key)
    for kind in (FailureKind.ATTEMPT, FailureKind.THROTTLED, FailureKind.SHUTDOWN, FailureKind.NEWER):
        run = await begin_one(ledger, failing)
        await clock.advance(10)
        await ledger.fail(run.lease, Failure(kind, JobError("unavailable", "busy")))
        await ledger.drop(failing.key)
    await begin_one(ledger, failing)
    await clock.advance(120)
    await ledger.reap()
    await ledger.drop(failing.key)
    await kill(ledger, 3)
    await ledger.enqueue([failing, a_build(4, coverage=Coverage("team:a", False, True))])
    await ledger.claim(BELIEFS)
    ingest = await begin_one(ledger, an_ingest())
    await ledger.enqueue([an_ingest()])
    await ledger.settle(ingest.lease, Success())

    lanes = {lane.queue: lane for lane in await ledger.lanes()}

    assert lanes[BELIEFS] == LaneStats(
        BELIEFS,
        "default",
        queued=1,
        dead=1,
        enqueued_total=12,
        new_total=9,
        rerun_total=1,
        merged_total=2,
        claimed_total=8,
        begun_total=7,
        done_total=1,
        retried_total=2,
        throttled_total=1,
        lost_total=1,
        folded_total=1,
        cancelled_total=6,
        dead_total=1,
        run_ms_total=2_000 + 4 * 10_000 + 120_000,
        lag_ms_total=3_000,
    )
    assert lanes[INGEST] == LaneStats(
        INGEST,
        "default",
        enqueued_total=2,
        new_total=1,
        merged_total=1,
        claimed_total=1,
        begun_total=1,
        done_total=1,
    )


async def test_a_batch_shows_how_far_its_parts_are(ledger: Ledger) -> None:
    await ledger.enqueue([an_ingest(n, f"team:{n}", batch="b1") for n in range(3)])
    [first, second, _] = (await ledger.claim(INGEST)).doorbells
    for doorbell in (first, second):
        await ledger.begin(doorbell.lease, worker="w")
    await ledger.settle(first.lease, Success(stored=1))
    await ledger.fail(second.lease, BROKEN)

    progress = await ledger.progress("b1")

    assert progress is not None
    assert (progress.total, progress.done, progress.dead, progress.queued) == (3, 1, 1, 1)
    assert await ledger.progress("b2") is None


async def test_a_root_is_active_until_its_nightly_build_is_enqueued(
    ledger: Ledger, clock: MovableClock
) -> None:
    await ledger.enqueue([a_build()])
    await ledger.enqueue([a_build(2, "team:b")], by_host=False)
    [seen] = await ledger.active()
    await clock.advance(1)
    await ledger.enqueue([a_build(3)])

    await ledger.full_build_enqueued(seen)
    [still] = await ledger.active()
    await ledger.full_build_enqueued(still)

    assert seen.party == still.party == Party("team:a", "default")
    assert await ledger.active() == []


async def test_what_follows_a_run_is_no_write_of_a_host(ledger: Ledger, clock: MovableClock) -> None:
    run = await begin_one(ledger, an_ingest())
    await clock.advance(10)
    await ledger.settle(run.lease, Success(follow_ups=(a_build(),)))

    [active] = await ledger.active()

    assert active.last_enqueued_at == START


async def test_what_was_served_stays_known_when_a_key_begins_anew(
    ledger: Ledger, clock: MovableClock
) -> None:
    run = await begin_one(ledger, a_build())
    await ledger.settle(run.lease, Success())
    await clock.advance(10)
    await ledger.enqueue([a_build(delay=300)])

    status = await ledger.status(a_build().key)

    assert status.state is JobState.WAITING
    assert (status.served_through, status.run) == (START, run.lease.task_id)


async def test_every_known_root_has_its_turn_to_be_reconciled(ledger: Ledger, clock: MovableClock) -> None:
    await ledger.enqueue([a_build(root=f"team:{n}") for n in range(5)])

    first = await ledger.to_reconcile(3, every=60)
    second = await ledger.to_reconcile(3, every=60)

    assert {party.root for party in first + second} == {f"team:{n}" for n in range(5)}
    assert await ledger.to_reconcile(3, every=60) == []
    await clock.advance(60)
    assert len(await ledger.to_reconcile(10, every=60)) == 5


async def test_an_idle_root_that_owes_nothing_is_forgotten(ledger: Ledger, clock: MovableClock) -> None:
    run = await begin_one(ledger, a_build())
    await ledger.settle(run.lease, Success())
    await ledger.enqueue([a_build(1, "team:owes", delay=1000)])

    assert await ledger.prune(idle=60) == 0
    await clock.advance(100)
    assert await ledger.prune(idle=60) == 1

    assert [party.root for party in await ledger.to_reconcile()] == ["team:owes"]


async def test_r19_whoever_waits_learns_when_its_own_enqueue_is_served(
    ledger: Ledger, clock: MovableClock
) -> None:
    await ledger.enqueue([a_build()])
    await clock.advance(1)
    run = await begin_one(ledger, a_build(delay=1))
    await clock.advance(1)
    await ledger.enqueue([a_build(delay=60)])
    later = (await ledger.status(run.lease.key)).last_enqueued_at
    await ledger.settle(run.lease, Success())

    status = await ledger.status(run.lease.key)

    assert later is not None
    assert status.state is JobState.WAITING
    assert (status.serves(START), status.serves(later)) == (True, False)
    assert status.run == run.lease.task_id


async def test_a_host_without_a_loop_uses_the_same_ledger(ledger: Ledger, redis_server: RedisServer) -> None:
    with SyncRedis(port=redis_server.port, decode_responses=True) as client:
        sync = SyncLedger(client, calls=ledger.calls)
        sync.enqueue([an_ingest(batch="b")])
        claimed = sync.claim(INGEST)
        assert sync.status(an_ingest().key).state is JobState.QUEUED
        assert sync.give_back([doorbell.lease for doorbell in claimed.doorbells]) == 1
        assert sync.progress("b") is not None
        assert sync.breakers() == []
        assert sync.lanes() == await ledger.lanes()
