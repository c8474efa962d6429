"""What becomes of an enqueue, by the state its key is in."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from redis.exceptions import ResponseError

from workers.ledger import (
    EnqueueState,
    Failure,
    FailureKind,
    JobError,
    JobState,
    Ledger,
    NewJob,
    Party,
    Success,
)
from workers.ledger.testing import BELIEFS, INGEST, START_MS, MovableClock, a_build, an_ingest, begin_one
from workers.ledger.transitions import instant

BROKEN = Failure(FailureKind.PERMANENT, JobError("invalid request", "no"))


def after(seconds: float) -> datetime:
    return instant(START_MS) + timedelta(seconds=seconds)


async def test_a_new_build_is_due_after_its_delay(ledger: Ledger, clock: MovableClock) -> None:
    [enqueued] = await ledger.enqueue([a_build(delay=300)])

    assert (enqueued.state, enqueued.due_at) == (EnqueueState.NEW, after(300))
    await clock.advance(299.999)
    assert (await ledger.claim(BELIEFS)).doorbells == ()
    await clock.advance(0.001)
    assert len((await ledger.claim(BELIEFS)).doorbells) == 1


async def test_an_ingest_is_due_at_once_whatever_delay_is_asked(ledger: Ledger) -> None:
    job: NewJob = an_ingest()
    [enqueued] = await ledger.enqueue(
        [NewJob(job.key, job.queue, job.profile, job.scope, job.envelope, 60.0)]
    )

    assert enqueued.due_at == after(0)


async def test_a_merged_build_waits_for_the_last_write_with_the_smallest_delay_asked(
    ledger: Ledger, clock: MovableClock
) -> None:
    await ledger.enqueue([a_build(delay=900)])
    await clock.advance(100)
    [second] = await ledger.enqueue([a_build(delay=300)])
    await clock.advance(100)
    [third] = await ledger.enqueue([a_build(delay=900)])

    assert (second.state, second.due_at) == (EnqueueState.MERGED, after(400))
    assert third.due_at == after(500)
    await clock.advance(299)
    assert (await ledger.claim(BELIEFS)).doorbells == ()
    await clock.advance(1)
    assert len((await ledger.claim(BELIEFS)).doorbells) == 1


async def test_i4_a_build_put_off_by_a_write_does_not_start_when_it_was_to_start_before(
    ledger: Ledger, clock: MovableClock
) -> None:
    await ledger.enqueue([a_build(delay=300)])
    await clock.advance(100)
    await ledger.enqueue([a_build(delay=300)])

    await clock.advance(200)
    stats = await ledger.stats()
    early = (await ledger.claim(BELIEFS)).doorbells
    await clock.advance(100)

    assert (stats.due, stats.oldest_due_age_s) == (0, None)
    assert early == ()
    assert len((await ledger.claim(BELIEFS)).doorbells) == 1


async def test_steady_writes_put_a_build_off_no_longer_than_the_longest_wait(
    ledger: Ledger, clock: MovableClock
) -> None:
    [enqueued] = await ledger.enqueue([a_build(delay=300)])
    for _ in range(19):
        await clock.advance(100)
        [enqueued] = await ledger.enqueue([a_build(delay=300)])

    assert enqueued.due_at == after(1800)
    assert len((await ledger.claim(BELIEFS)).doorbells) == 1


async def test_i3_a_build_enqueued_while_it_is_queued_or_running_runs_again(
    ledger: Ledger, clock: MovableClock
) -> None:
    await ledger.enqueue([a_build()])
    [doorbell] = (await ledger.claim(BELIEFS)).doorbells
    await clock.advance(10)
    [while_queued] = await ledger.enqueue([a_build(delay=300)])
    await ledger.begin(doorbell.lease, worker="w")
    await clock.advance(10)
    [while_running] = await ledger.enqueue([a_build(delay=300)])
    settled = await ledger.settle(doorbell.lease, Success())

    assert (while_queued.state, while_queued.due_at) == (EnqueueState.RERUN, after(310))
    assert (while_running.state, while_running.due_at) == (EnqueueState.RERUN, after(320))
    assert settled is not None
    assert (settled.state, settled.due_at) == (JobState.WAITING, after(320))
    job = await ledger.show(doorbell.lease.key)
    assert job is not None
    assert (job.first_enqueued_at, job.last_enqueued_at) == (after(10), after(20))
    assert (job.merged, job.attempts) == (1, 0)


async def test_writes_during_a_run_wait_for_the_last_with_the_smallest_delay_and_not_too_long(
    ledger: Ledger, clock: MovableClock
) -> None:
    runs = [await begin_one(ledger, a_build(n)) for n in (1, 2, 3)]
    await clock.advance(10)
    await ledger.enqueue([a_build(1, delay=100), a_build(2, delay=300), a_build(3, delay=300)])
    await clock.advance(20)
    [smallest] = await ledger.enqueue([a_build(1, delay=300)])
    await clock.advance(1670)
    [longest] = await ledger.enqueue([a_build(2, delay=300)])
    await ledger.enqueue([a_build(3, delay=300)])
    settled = [await ledger.settle(run.lease, Success()) for run in runs[:2]]
    failed = await ledger.fail(runs[2].lease, Failure(FailureKind.ATTEMPT, JobError("x", "y")))

    assert (smallest.due_at, longest.due_at) == (after(130), after(1810))
    assert [one and one.due_at for one in settled] == [after(130), after(1810)]
    assert failed is not None
    assert failed.due_at == after(1810)


async def test_writes_during_a_run_begin_a_new_wait_and_without_a_run_the_old_one_goes_on(
    ledger: Ledger, clock: MovableClock
) -> None:
    def written(name: str, delay: float) -> NewJob:
        return a_build(1, f"team:{name}", delay=delay)

    ways = ("failed", "lost", "given", "parked", "stopped", "newer", "unanswered")
    await ledger.enqueue([written(name, 60) for name in ways])
    await clock.advance(60)
    leases = {one.root[5:]: one.lease for one in (await ledger.claim(BELIEFS)).doorbells}
    for name in ("failed", "lost", "stopped", "newer"):
        await ledger.begin(leases[name], worker="w")
    await clock.advance(10)
    await ledger.enqueue([written(name, 300) for name in ways])

    for name, kind in (("failed", "attempt"), ("stopped", "shutdown"), ("newer", "newer")):
        await ledger.fail(leases[name], Failure(FailureKind(kind), JobError("x", "y")))
    await ledger.give_back([leases["given"]])
    await ledger.open_breaker(Party("team:parked", "default"), "no credits")
    assert await ledger.begin(leases["parked"], worker="w") is None
    await clock.advance(900)
    await ledger.reap()

    waits = {job.root[5:]: (job.first_enqueued_at, job.due_at) for job in await ledger.jobs()}
    assert waits == {
        "failed": (after(70), after(370)),
        "lost": (after(70), after(370)),
        "given": (after(0), after(130)),
        "parked": (after(0), after(130)),
        "stopped": (after(0), after(130)),
        "newer": (after(0), after(130)),
        "unanswered": (after(0), after(130)),
    }


async def test_an_identical_ingest_that_arrives_while_it_runs_does_not_run_again(ledger: Ledger) -> None:
    run = await begin_one(ledger, an_ingest())
    [again] = await ledger.enqueue([an_ingest()])
    settled = await ledger.settle(run.lease, Success(stored=1))

    assert again.state is EnqueueState.MERGED
    assert settled is not None
    assert settled.state is JobState.DONE
    assert (await ledger.claim(INGEST)).doorbells == ()


async def test_no_enqueue_runs_a_job_before_its_retry_is_due(ledger: Ledger, clock: MovableClock) -> None:
    run = await begin_one(ledger, a_build())
    failed = await ledger.fail(
        run.lease, Failure(FailureKind.TRANSIENT, JobError("unavailable", "busy"), retry_after=120)
    )
    [merged] = await ledger.enqueue([a_build(delay=0)])

    assert failed is not None
    assert failed.due_at == after(120)
    assert (merged.state, merged.due_at) == (EnqueueState.MERGED, after(120))
    await clock.advance(119)
    assert (await ledger.claim(BELIEFS)).doorbells == ()


async def test_a_parked_job_is_merged_and_still_waits_for_its_facts_when_it_is_returned(
    ledger: Ledger, clock: MovableClock
) -> None:
    await ledger.enqueue([a_build(delay=300)])
    await clock.advance(300)
    await ledger.open_breaker(Party("team:a", "default"), "no credits")
    assert (await ledger.claim(BELIEFS)).parked == 1
    await clock.advance(50)
    [merged] = await ledger.enqueue([a_build(delay=300)])
    await ledger.close_breaker("default", "team:a")

    assert (merged.state, merged.due_at) == (EnqueueState.MERGED, after(650))
    assert (await ledger.status(a_build().key)).state is JobState.WAITING
    assert (await ledger.claim(BELIEFS)).doorbells == ()


async def test_r30_a_dead_or_done_key_takes_new_work_at_once(ledger: Ledger) -> None:
    dead, done = await begin_one(ledger, a_build()), await begin_one(ledger, an_ingest())
    await ledger.fail(dead.lease, BROKEN)
    await ledger.settle(done.lease, Success())
    assert [job.key for job in await ledger.dead()] == [dead.lease.key]

    states = [one.state for one in await ledger.enqueue([a_build(), an_ingest()])]

    assert states == [EnqueueState.NEW, EnqueueState.NEW]
    assert await ledger.dead() == []
    job = await ledger.show(dead.lease.key)
    assert job is not None
    assert (job.state, job.attempts, job.error) == (JobState.WAITING, 0, None)
    assert {run.key for run in await ledger.history()} == {dead.lease.key, done.lease.key}


async def test_a_build_enqueued_while_a_run_dies_starts_a_new_series(ledger: Ledger) -> None:
    run = await begin_one(ledger, a_build())
    await ledger.enqueue([a_build(delay=300)])
    failed = await ledger.fail(run.lease, BROKEN)

    assert failed is not None
    assert (failed.state, failed.due_at) == (JobState.WAITING, after(300))
    assert await ledger.dead() == []
    assert [one.outcome for one in await ledger.history()] == ["dead"]


async def test_what_follows_a_run_that_succeeded_starts_with_a_clean_slate(
    ledger: Ledger, clock: MovableClock
) -> None:
    await begin_one(ledger, a_build())
    await clock.advance(120)
    await ledger.reap()
    [doorbell] = (await ledger.claim(BELIEFS)).doorbells
    run = await ledger.begin(doorbell.lease, worker="w")
    await ledger.enqueue([a_build(delay=300)])
    await ledger.settle(doorbell.lease, Success())

    job = await ledger.show(a_build().key)

    assert run is not None
    assert (run.attempts, run.losses) == (2, 1)
    assert job is not None
    assert (job.state, job.attempts, job.losses, job.error) == (JobState.WAITING, 0, 0, None)


@pytest.mark.parametrize(
    "bad",
    [
        NewJob("nonsense", BELIEFS, "default", "x", "{}"),
        a_build(2, delay=-1),
        replace(a_build(2), queue="beliefs|team:a"),
    ],
    ids=["key", "delay", "queue"],
)
async def test_a_batch_is_accepted_whole_or_not_at_all(ledger: Ledger, bad: NewJob) -> None:
    good = a_build(1)

    with pytest.raises(ResponseError, match=r"malformed job|queue's name"):
        await ledger.enqueue([good, bad])

    assert (await ledger.status(good.key)).state is JobState.UNKNOWN
    assert (await ledger.stats()).waiting == 0
