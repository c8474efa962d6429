"""A claimed job from its doorbell to its end: tokens, leases, retries, losses."""

from datetime import timedelta

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from workers.ledger import (
    EnqueueState,
    Failure,
    FailureKind,
    JobError,
    JobState,
    Lease,
    Ledger,
    LedgerOptions,
    Outcome,
    Success,
)
from workers.ledger.testing import (
    BELIEFS,
    INGEST,
    MovableClock,
    a_build,
    an_ingest,
    begin_one,
    claim_one,
    still_ledger,
)
from workers.testing import RedisServer

BUSY = Failure(FailureKind.TRANSIENT, JobError("unavailable", "busy"))
BROKEN = Failure(FailureKind.ATTEMPT, JobError("engine error", "broken"))


async def test_a_doorbell_that_rings_twice_starts_one_run(ledger: Ledger) -> None:
    lease = await claim_one(ledger, a_build())

    first = await ledger.begin(lease, worker="worker-1")
    second = await ledger.begin(lease, worker="worker-2")

    assert first is not None
    assert (first.envelope, first.scope, first.attempts) == ('{"n":1}', "team:a/agent:a1 [conversation]", 1)
    assert second is None


async def test_i2_a_doorbell_from_before_its_job_was_claimed_again_starts_nothing(ledger: Ledger) -> None:
    old = await claim_one(ledger, a_build())
    await ledger.give_back([old])
    [doorbell] = (await ledger.claim(BELIEFS)).doorbells

    assert await ledger.begin(old, worker="w") is None
    assert await ledger.give_back([old]) == 0
    assert await ledger.begin(doorbell.lease, worker="w") is not None


async def test_i2_a_run_that_has_ended_does_not_end_again(ledger: Ledger) -> None:
    run = await begin_one(ledger, a_build())
    await ledger.settle(run.lease, Success())

    assert await ledger.settle(run.lease, Success(follow_ups=(a_build(9),))) is None
    assert await ledger.fail(run.lease, BROKEN) is None
    assert await ledger.renew([run.lease]) == [False]
    assert await ledger.begin(run.lease, worker="w") is None
    assert await ledger.give_back([run.lease]) == 0

    assert (await ledger.status(run.lease.key)).state is JobState.DONE
    assert (await ledger.status(a_build(9).key)).state is JobState.UNKNOWN
    assert [entry.outcome for entry in await ledger.history()] == [Outcome.DONE]
    assert (await ledger.stats()).done_total == 1


async def test_a_doorbell_that_could_not_be_published_waits_again_uncounted(ledger: Ledger) -> None:
    lease = await claim_one(ledger, a_build())

    assert await ledger.give_back([lease, Lease(lease.key, 999)]) == 1

    assert await ledger.begin(lease, worker="w") is None
    [doorbell] = (await ledger.claim(BELIEFS)).doorbells
    run = await ledger.begin(doorbell.lease, worker="w")
    assert run is not None
    assert (run.attempts, run.losses) == (1, 0)
    assert run.lease.token > lease.token


async def test_i2_a_late_finish_of_a_run_taken_over_is_discarded(ledger: Ledger, clock: MovableClock) -> None:
    slow = await begin_one(ledger, a_build())
    await clock.advance(121)
    await ledger.reap()
    [doorbell] = (await ledger.claim(BELIEFS)).doorbells
    assert await ledger.begin(doorbell.lease, worker="worker-2") is not None

    assert await ledger.renew([slow.lease, doorbell.lease]) == [False, True]
    assert await ledger.settle(slow.lease, Success(follow_ups=(a_build(9),))) is None
    assert await ledger.fail(slow.lease, BROKEN) is None

    settled = await ledger.settle(doorbell.lease, Success())
    assert settled is not None
    assert (await ledger.status(a_build(9).key)).state is JobState.UNKNOWN


async def test_a_renewed_run_is_never_taken_over(ledger: Ledger, clock: MovableClock) -> None:
    run = await begin_one(ledger, a_build())
    await clock.advance(119)
    assert (await ledger.reap()).lost == 0
    for _ in range(10):
        await clock.advance(40)
        assert await ledger.renew([run.lease]) == [True]
        assert (await ledger.reap()).lost == 0

    await clock.advance(119)
    assert (await ledger.reap()).lost == 0
    await clock.advance(1)
    assert (await ledger.reap()).lost == 1


async def test_a_doorbell_nobody_answers_is_taken_back_uncounted(ledger: Ledger, clock: MovableClock) -> None:
    await claim_one(ledger, a_build())
    await clock.advance(899)
    early = await ledger.reap()
    await clock.advance(1)
    reaped = await ledger.reap()

    assert early.returned == 0
    assert (reaped.returned, reaped.lost) == (1, 0)
    job = await ledger.show(a_build().key)
    assert job is not None
    assert (job.state, job.attempts, job.losses) == (JobState.WAITING, 0, 0)


async def test_a_reaper_takes_back_some_at_a_time_and_says_that_there_is_more(
    redis: Redis, ledger: Ledger, clock: MovableClock
) -> None:
    ledger = still_ledger(redis, LedgerOptions(max_in_flight=500))
    await ledger.enqueue([a_build(1, f"team:t{n}") for n in range(450)])
    await ledger.claim(BELIEFS)
    await clock.advance(900)

    reaped = [await ledger.reap() for _ in range(3)]

    assert [(one.returned, one.more) for one in reaped] == [(200, True), (200, True), (50, False)]


async def test_a_job_whose_worker_dies_three_times_is_dead(ledger: Ledger, clock: MovableClock) -> None:
    await ledger.enqueue([a_build()])
    dead: list[int] = []
    for _ in range(3):
        [doorbell] = (await ledger.claim(BELIEFS)).doorbells
        await ledger.begin(doorbell.lease, worker="worker-1")
        await clock.advance(120)
        dead.append((await ledger.reap()).dead)

    assert dead == [0, 0, 1]
    [letter] = await ledger.dead()
    assert letter.error is not None
    assert letter.error.message == "its worker died 3 times"
    assert (letter.attempts, letter.losses) == (3, 3)
    outcomes = [run.outcome for run in await ledger.history()]
    assert outcomes == [Outcome.DEAD, Outcome.LOST, Outcome.LOST]


async def test_what_follows_a_run_is_enqueued_in_the_same_step(ledger: Ledger) -> None:
    run = await begin_one(ledger, an_ingest())

    settled = await ledger.settle(run.lease, Success(stored=3, follow_ups=(a_build(7, delay=300),)))

    assert settled is not None
    assert [one.state for one in settled.follow_ups] == [EnqueueState.NEW]
    assert (await ledger.status(a_build(7).key)).state is JobState.WAITING
    assert (await ledger.history())[0].stored == 3


async def test_no_job_enqueues_itself(ledger: Ledger) -> None:
    run = await begin_one(ledger, a_build())

    settled = await ledger.settle(run.lease, Success(follow_ups=(a_build(),)))

    assert settled is not None
    assert settled.state is JobState.DONE


async def test_i7_what_follows_stays_within_the_root(ledger: Ledger) -> None:
    run = await begin_one(ledger, an_ingest(root="team:a"))

    with pytest.raises(ResponseError, match="another root"):
        await ledger.settle(run.lease, Success(follow_ups=(a_build(root="team:b"),)))

    assert (await ledger.status(run.lease.key)).state is JobState.RUNNING


async def test_a_retry_backs_off_with_full_jitter_and_at_least_as_long_as_asked(
    redis: Redis, ledger: Ledger, clock: MovableClock
) -> None:
    ledger = still_ledger(redis, LedgerOptions(max_attempts=50, breaker_threshold=1000))
    pauses: list[float] = []
    await ledger.enqueue([a_build()])
    for attempt in range(12):
        [doorbell] = (await ledger.claim(BELIEFS)).doorbells
        run = await ledger.begin(doorbell.lease, worker="w")
        failed = await ledger.fail(doorbell.lease, BUSY)
        assert run is not None
        assert failed is not None
        assert failed.due_at is not None
        pause = (failed.due_at - run.begun_at).total_seconds()
        assert 0 <= pause <= min(900, 10 * 2**attempt)
        pauses.append(pause)
        await clock.advance(900)

    assert len(set(pauses)) > 6
    assert max(pauses) > 10
    assert pauses != [min(900, 10 * 2**attempt) for attempt in range(12)]
    [doorbell] = (await ledger.claim(BELIEFS)).doorbells
    run = await ledger.begin(doorbell.lease, worker="w")
    failed = await ledger.fail(
        doorbell.lease, Failure(FailureKind.TRANSIENT, JobError("unavailable", "busy"), retry_after=5000)
    )
    assert failed is not None
    assert run is not None
    assert failed.due_at == run.begun_at + timedelta(seconds=5000)


async def test_a_job_dies_by_its_attempts_and_keeps_why(ledger: Ledger, clock: MovableClock) -> None:
    await ledger.enqueue([a_build()])
    for _ in range(5):
        assert (await ledger.status(a_build().key)).state is JobState.WAITING
        [doorbell] = (await ledger.claim(BELIEFS)).doorbells
        await ledger.begin(doorbell.lease, worker="worker-1")
        await ledger.fail(doorbell.lease, BROKEN)
        await clock.advance(900)

    letter = await ledger.show(a_build().key)
    assert letter is not None
    assert letter.error is not None
    assert (letter.error.kind, letter.error.message) == ("engine error", "broken")
    assert (letter.attempts, letter.worker) == (5, "worker-1")
    assert (await ledger.status(letter.key)).state is JobState.DEAD


async def test_r52_a_hopeless_job_does_not_hold_up_those_behind_it(
    ledger: Ledger, clock: MovableClock
) -> None:
    await ledger.enqueue([an_ingest(0)])
    await clock.advance(1)
    await ledger.enqueue([an_ingest(n) for n in range(1, 21)])
    done: set[str] = set()
    for _ in range(60):
        for doorbell in (await ledger.claim(INGEST)).doorbells:
            await ledger.begin(doorbell.lease, worker="w")
            if doorbell.lease.key == an_ingest(0).key:
                await ledger.fail(doorbell.lease, BROKEN)
            else:
                await ledger.settle(doorbell.lease, Success())
                done.add(doorbell.lease.key)
        await clock.advance(60)

    assert len(done) == 20
    assert [letter.key for letter in await ledger.dead()] == [an_ingest(0).key]


async def test_a_stopping_worker_gives_its_run_back_due_at_once_and_uncounted(
    ledger: Ledger, clock: MovableClock
) -> None:
    run = await begin_one(ledger, a_build())
    await clock.advance(5)

    failed = await ledger.fail(run.lease, Failure(FailureKind.SHUTDOWN, JobError("shutdown", "stopping")))

    assert failed is not None
    assert failed.state is JobState.WAITING
    [doorbell] = (await ledger.claim(BELIEFS)).doorbells
    again = await ledger.begin(doorbell.lease, worker="w")
    assert again is not None
    assert (again.attempts, again.losses) == (1, 0)


async def test_a_stopping_worker_is_in_the_history_and_neither_a_retry_nor_the_jobs_error(
    ledger: Ledger, clock: MovableClock
) -> None:
    first = await begin_one(ledger, a_build())
    await ledger.fail(first.lease, BROKEN)
    await clock.advance(900)
    [doorbell] = (await ledger.claim(BELIEFS)).doorbells
    await ledger.begin(doorbell.lease, worker="w")

    await ledger.fail(doorbell.lease, Failure(FailureKind.SHUTDOWN, JobError("WorkerStopping", "it stops")))

    job = await ledger.show(a_build().key)
    assert job is not None
    assert job.error is not None
    assert job.error.kind == "engine error"
    assert (await ledger.stats()).retried_total == 1
    kinds = [entry.error and entry.error.kind for entry in await ledger.history()]
    assert kinds == ["WorkerStopping", "engine error"]


async def test_a_job_of_a_newer_release_waits_for_its_worker_and_then_is_dead(
    ledger: Ledger, clock: MovableClock
) -> None:
    newer = Failure(FailureKind.NEWER, JobError("newer envelope", "version 2"))
    await ledger.enqueue([a_build()])
    states: list[JobState] = []
    for _ in range(3):
        [doorbell] = (await ledger.claim(BELIEFS)).doorbells
        run = await ledger.begin(doorbell.lease, worker="w")
        assert run is not None
        assert run.attempts == 1
        failed = await ledger.fail(doorbell.lease, newer)
        assert failed is not None
        states.append(failed.state)
        await clock.advance(43_200)

    assert states == [JobState.WAITING, JobState.WAITING, JobState.DEAD]
    # However often it came by: a day of it would push all else out of the history.
    assert [entry.outcome for entry in await ledger.history()] == [Outcome.DEAD, Outcome.RETRY]
    assert (await ledger.stats()).retried_total == 0


async def test_a_rate_limit_at_the_last_attempt_is_not_the_end(redis: Redis, ledger: Ledger) -> None:
    ledger = still_ledger(redis, LedgerOptions(max_attempts=1))
    run = await begin_one(ledger, a_build())

    failed = await ledger.fail(run.lease, Failure(FailureKind.THROTTLED, JobError("throttled", "later")))

    assert failed is not None
    assert failed.state is JobState.WAITING


async def test_a_rate_limit_that_says_when_to_come_back_is_no_attempt(
    ledger: Ledger, clock: MovableClock
) -> None:
    throttled = Failure(FailureKind.THROTTLED, JobError("unavailable", "429"), retry_after=30)
    await ledger.enqueue([a_build()])
    for _ in range(20):
        [doorbell] = (await ledger.claim(BELIEFS)).doorbells
        run = await ledger.begin(doorbell.lease, worker="w")
        assert run is not None
        assert run.attempts == 1
        await ledger.fail(doorbell.lease, throttled)
        await clock.advance(60)

    assert (await ledger.status(a_build().key)).state is JobState.WAITING


async def test_i1_what_was_accepted_outlives_a_killed_redis(
    redis_server: RedisServer, ledger: Ledger
) -> None:
    run = await begin_one(ledger, a_build(1))
    await ledger.enqueue([a_build(2, delay=60), an_ingest(3)])

    redis_server.kill()
    redis_server.start()

    async with Redis(port=redis_server.port, decode_responses=True) as client:
        again = still_ledger(client)
        assert {job.key: job.state for job in await again.jobs()} == {
            a_build(1).key: JobState.RUNNING,
            a_build(2).key: JobState.WAITING,
            an_ingest(3).key: JobState.WAITING,
        }
        assert await again.settle(run.lease, Success()) is not None


async def test_i2_a_ledger_that_was_lost_hands_out_no_token_again(redis: Redis) -> None:
    ledger = Ledger(redis)
    before = await begin_one(ledger, a_build())
    await redis.flushall()  # pyright: ignore[reportUnknownMemberType]  # redis-py leaves **kwargs untyped
    after = await begin_one(ledger, a_build())

    assert after.lease.token > before.lease.token
    assert await ledger.settle(before.lease, Success()) is None


async def test_a_claim_in_the_same_round_trip_sees_what_was_enqueued(redis: Redis) -> None:
    for _ in range(2):
        ledger = Ledger(redis)
        await redis.script_flush()
        _, claimed = await ledger.both(ledger.calls.enqueue([an_ingest()]), ledger.calls.claim(INGEST))
        assert len(claimed.doorbells) == 1
        await ledger.drop(an_ingest().key)


async def test_a_redis_that_forgot_its_scripts_is_given_them_again(ledger: Ledger, redis: Redis) -> None:
    run = await begin_one(ledger, a_build())
    await redis.script_flush()

    settle, claim = ledger.calls.settle(run.lease, Success()), ledger.calls.claim(BELIEFS)
    settled, claimed = await ledger.both(settle, claim)

    assert settled is not None
    assert claimed.doorbells == ()
