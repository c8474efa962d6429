"""What is parked while an engine cannot be used, and how it comes back."""

from collections import Counter

import pytest
from redis.asyncio import Redis

from workers.ledger import (
    Failure,
    FailureKind,
    JobError,
    JobState,
    Lease,
    Ledger,
    LedgerOptions,
    Outcome,
    Party,
    Priority,
    Probe,
    Success,
)
from workers.ledger.testing import BELIEFS, MovableClock, a_build, begin_one, still_ledger
from workers.ledger.transitions import root_of

NO_CREDITS = Failure(FailureKind.CREDENTIAL, JobError("engine error", "no credits"))
REFUSED = Failure(FailureKind.UNREACHABLE, JobError("unavailable", "connection refused"))
BUSY = Failure(FailureKind.TRANSIENT, JobError("unavailable", "busy"))


async def claim_all(ledger: Ledger) -> list[Lease]:
    return [doorbell.lease for doorbell in (await ledger.claim(BELIEFS)).doorbells]


async def test_a_tenant_without_credits_is_parked_and_nobody_else(ledger: Ledger) -> None:
    run = await begin_one(ledger, a_build(root="team:a"))
    failed = await ledger.fail(run.lease, NO_CREDITS)
    await ledger.enqueue([a_build(n, "team:a") for n in range(2, 12)])
    await ledger.enqueue([a_build(root="team:b"), a_build(1, "team:a/team:c", profile="other")])

    claimed = await ledger.claim(BELIEFS)

    assert failed is not None
    assert (failed.state, failed.opened) == (JobState.PARKED, True)
    assert sorted(doorbell.root for doorbell in claimed.doorbells) == ["team:a/team:c", "team:b"]
    assert claimed.parked == 10
    [breaker] = await ledger.breakers()
    assert (breaker.root, breaker.profile, breaker.reason, breaker.parked) == (
        "team:a",
        "default",
        "no credits",
        11,
    )
    job = await ledger.show(run.lease.key)
    assert job is not None
    assert (job.state, job.attempts) == (JobState.PARKED, 0)


async def test_an_unreachable_host_parks_its_whole_profile_and_no_other(ledger: Ledger) -> None:
    run = await begin_one(ledger, a_build(root="team:a"))
    await ledger.fail(run.lease, REFUSED)
    await ledger.enqueue([a_build(root="team:b"), a_build(1, "team:c", profile="other")])

    claimed = await ledger.claim(BELIEFS)

    assert [doorbell.root for doorbell in claimed.doorbells] == ["team:c"]
    [breaker] = await ledger.breakers()
    assert (breaker.root, breaker.profile, breaker.parked) == (None, "default", 2)


async def test_what_was_claimed_before_a_breaker_opened_is_parked_when_it_begins(ledger: Ledger) -> None:
    await ledger.enqueue([a_build(1), a_build(2)])
    first, second = await claim_all(ledger)
    await ledger.begin(first, worker="w")
    await ledger.fail(first, NO_CREDITS)

    assert await ledger.begin(second, worker="w") is None

    assert (await ledger.status(second.key)).state is JobState.PARKED


async def test_transient_failures_of_three_jobs_in_a_row_park_the_profile(
    redis: Redis, ledger: Ledger
) -> None:
    await ledger.enqueue([a_build(n, f"team:{n}") for n in range(6)])
    leases = await claim_all(ledger)
    opened: list[bool] = []
    for lease in leases[:5]:
        await ledger.begin(lease, worker="w")
        failed = await ledger.fail(lease, BUSY)
        assert failed is not None
        opened.append(failed.opened)

    assert opened == [False, False, False, False, True]
    last = await ledger.show(leases[4].key)
    assert last is not None
    assert (last.state, last.attempts) == (JobState.PARKED, 0)
    assert await ledger.begin(leases[5], worker="w") is None


async def test_any_success_ends_a_row_of_failures(ledger: Ledger) -> None:
    await ledger.enqueue([a_build(n, f"team:{n}") for n in range(10)])
    leases = await claim_all(ledger)
    for number, lease in enumerate(leases):
        await ledger.begin(lease, worker="w")
        if number == 4:
            await ledger.settle(lease, Success())
        else:
            await ledger.fail(lease, BUSY)
        if number == 8:
            assert await ledger.breakers() == []

    assert len(await ledger.breakers()) == 1


async def test_a_row_of_failures_that_opened_a_breaker_is_over(ledger: Ledger) -> None:
    await ledger.enqueue([a_build(n, f"team:{n}") for n in range(6)])
    leases = await claim_all(ledger)
    for lease in leases:
        await ledger.begin(lease, worker="w")
    for lease in leases[:5]:
        await ledger.fail(lease, BUSY)
    await ledger.close_breaker("default", None)

    failed = await ledger.fail(leases[5], BUSY)

    assert failed is not None
    assert (failed.state, failed.opened) == (JobState.WAITING, False)
    assert await ledger.breakers() == []


async def test_the_success_of_a_run_from_before_a_breaker_opened_does_not_close_it(ledger: Ledger) -> None:
    await ledger.enqueue([a_build(1), a_build(2)])
    first, second = await claim_all(ledger)
    for lease in (first, second):
        await ledger.begin(lease, worker="w")
    await ledger.fail(first, NO_CREDITS)

    await ledger.settle(second, Success())

    assert [breaker.root for breaker in await ledger.breakers()] == ["team:a"]


async def test_one_bad_job_alone_dies_by_its_attempts(ledger: Ledger, clock: MovableClock) -> None:
    await ledger.enqueue([a_build()])
    for _ in range(5):
        [lease] = await claim_all(ledger)
        await ledger.begin(lease, worker="w")
        await ledger.fail(lease, BUSY)
        await clock.advance(900)

    assert (await ledger.status(a_build().key)).state is JobState.DEAD
    assert await ledger.breakers() == []


async def test_probes_back_off_and_two_beats_ask_once(ledger: Ledger, clock: MovableClock) -> None:
    run = await begin_one(ledger, a_build())
    await ledger.fail(run.lease, NO_CREDITS)
    asked: list[int] = []
    for second in range(1, 3001):
        await clock.advance(1)
        if second % 10 == 0 and (probes := await ledger.probes()):
            assert probes == [Probe("default", "team:a", "team:a", "no credits")]
            assert await ledger.probes() == []
            asked.append(second)

    assert asked == [30, 90, 210, 450, 930, 1830, 2730]


async def test_closing_a_breaker_returns_what_was_parked(ledger: Ledger) -> None:
    await ledger.open_breaker(Party("team:a", "default"), "refused", whole_profile=True)
    await ledger.enqueue([a_build(n, f"team:{n % 7}") for n in range(1200)])
    while (await ledger.claim(BELIEFS)).parked:
        pass
    assert (await ledger.stats()).parked == 1200

    assert await ledger.close_breaker("default", None) == 1200

    stats = await ledger.stats()
    assert (stats.parked, stats.waiting, stats.breakers) == (0, 1200, [])
    assert len(await claim_all(ledger)) == 7


async def test_a_breaker_that_is_open_is_not_opened_again(ledger: Ledger, clock: MovableClock) -> None:
    await ledger.open_breaker(Party("team:a", "default"), "no credits", whole_profile=False)
    before = await ledger.breakers()
    await clock.advance(20)

    again = await ledger.open_breaker(Party("team:a", "default"), "still none", whole_profile=False)

    assert again is False
    assert await ledger.breakers() == before


async def test_closing_one_breaker_leaves_parked_what_another_one_holds(ledger: Ledger) -> None:
    await ledger.open_breaker(Party("team:a", "default"), "no credits")
    await ledger.open_breaker(Party("team:z", "default"), "refused", whole_profile=True)
    for root in ("team:a", "team:b"):
        await ledger.enqueue([a_build(n, root) for n in range(3)])
        await ledger.claim(BELIEFS)

    assert await ledger.close_breaker("default", None) == 3

    [breaker] = await ledger.breakers()
    assert (breaker.root, breaker.parked) == ("team:a", 3)
    assert {job.key: job.state for job in await ledger.jobs(root="team:b")} == {
        a_build(n, "team:b").key: JobState.WAITING for n in range(3)
    }


async def test_a_reaper_returns_what_a_broken_off_closing_left_parked(ledger: Ledger) -> None:
    run = await begin_one(ledger, a_build())
    await ledger.fail(run.lease, NO_CREDITS)
    await ledger.run(ledger.calls.close_breaker("default", "team:a"))

    assert (await ledger.reap()).unparked == 1

    assert (await ledger.status(run.lease.key)).state is JobState.WAITING


async def test_r47_a_closed_breaker_lets_one_run_through_until_it_succeeds(
    ledger: Ledger, clock: MovableClock
) -> None:
    await ledger.enqueue([a_build(n) for n in range(200)])
    calls = 0
    for _ in range(600):
        for probe in await ledger.probes():
            await ledger.close_breaker(probe.profile, probe.root)
        for lease in await claim_all(ledger):
            if await ledger.begin(lease, worker="w"):
                calls += 1
                await ledger.fail(lease, NO_CREDITS)
        await clock.advance(1)

    # Ten minutes of an engine that says it is well and has no credits.
    assert calls <= 4
    [breaker] = await ledger.breakers()
    assert breaker.parked == 200


async def on_trial(ledger: Ledger, *, whole_profile: bool = True) -> list[Lease]:
    """Three due builds of each of two roots, of one or both on trial: those it lets through, claimed."""
    await ledger.open_breaker(Party("team:a", "default"), "refused", whole_profile=whole_profile)
    await ledger.close_breaker("default", None if whole_profile else "team:a")
    await ledger.enqueue([a_build(n, root) for n in range(3) for root in ("team:a", "team:b")])
    return await claim_all(ledger)


async def test_i5_what_a_trial_held_back_is_claimed_as_soon_as_a_run_of_any_root_passes_it(
    ledger: Ledger,
) -> None:
    of_a, _ = await on_trial(ledger)
    await ledger.begin(of_a, worker="w")
    held_back = await claim_all(ledger)

    await ledger.settle(of_a, Success())
    claimed = await claim_all(ledger)

    assert held_back == []
    assert Counter(root_of(lease.key) for lease in claimed) == {"team:a": 2, "team:b": 2}


@pytest.mark.parametrize("whole_profile", [True, False])
async def test_i5_what_a_trial_held_back_is_claimed_when_the_trial_is_forgotten(
    ledger: Ledger, clock: MovableClock, whole_profile: bool
) -> None:
    leases = await on_trial(ledger, whole_profile=whole_profile)
    for lease in leases:
        await ledger.begin(lease, worker="w")
    await clock.advance(1799)
    await ledger.renew(leases)
    held_back = await claim_all(ledger)

    await clock.advance(1)
    await ledger.reap()
    claimed = await claim_all(ledger)

    assert held_back == []
    # Of a root that was not on trial all three were claimed at first.
    expected = {"team:a": 2, "team:b": 2} if whole_profile else {"team:a": 2}
    assert Counter(root_of(lease.key) for lease in claimed) == expected


async def test_an_operators_run_passes_an_open_breaker_and_its_success_closes_it(ledger: Ledger) -> None:
    run = await begin_one(ledger, a_build(1))
    await ledger.fail(run.lease, NO_CREDITS)
    await ledger.enqueue([a_build(2)])
    await ledger.claim(BELIEFS)

    assert await ledger.run_now(run.lease.key) is JobState.PARKED
    [doorbell] = (await ledger.claim(BELIEFS)).doorbells
    assert doorbell.priority is Priority.HIGH
    assert await ledger.begin(doorbell.lease, worker="w") is not None
    await ledger.settle(doorbell.lease, Success())

    assert await ledger.breakers() == []
    await ledger.reap()
    assert [lease.key for lease in await claim_all(ledger)] == [a_build(2).key]


async def test_a_parked_failure_stays_in_view(ledger: Ledger, redis: Redis) -> None:
    ledger = still_ledger(redis, LedgerOptions(max_attempts=1))
    run = await begin_one(ledger, a_build())
    await ledger.fail(run.lease, NO_CREDITS)

    [entry] = await ledger.history()

    assert entry.outcome is Outcome.RETRY
    assert entry.error is not None
    assert entry.error.message == "no credits"
