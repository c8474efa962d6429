"""Whose turn it is, how much is in flight, and which builds go with a wider one."""

from collections import Counter
from dataclasses import replace
from importlib.resources import files

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis import Redis as SyncRedis
from redis.asyncio import Redis

from tinymemory.namespace import MAX_DEPTH, Namespace, Reach
from workers.ledger import (
    Coverage,
    Failure,
    FailureKind,
    JobError,
    JobState,
    Ledger,
    LedgerOptions,
    NewJob,
    Outcome,
    Party,
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
from workers.ledger.transitions import coverage_text
from workers.testing import RedisServer


def subtree(n: int, at: str, root: str = "team:a", *kinds: str, delay: float = 0.0) -> NewJob:
    return a_build(n, root, delay=delay, coverage=Coverage(at, False, True, kinds))


def exact(n: int, at: str, root: str = "team:a", *kinds: str, delay: float = 0.0) -> NewJob:
    return a_build(n, root, delay=delay, coverage=Coverage(at, False, False, kinds))


async def test_i6_a_tenant_with_a_backlog_does_not_delay_another(redis: Redis, ledger: Ledger) -> None:
    ledger = still_ledger(redis, LedgerOptions(root_concurrency=1000))
    await ledger.enqueue([a_build(n, "team:busy") for n in range(2000)])
    first = await ledger.claim(BELIEFS, 8)
    await ledger.enqueue([a_build(1, "team:quiet")])

    second = await ledger.claim(BELIEFS, 8)

    assert Counter(doorbell.root for doorbell in first.doorbells) == {"team:busy": 8}
    assert Counter(doorbell.root for doorbell in second.doorbells) == {"team:busy": 7, "team:quiet": 1}


async def test_i6_roots_take_turns(ledger: Ledger) -> None:
    for root in ("team:a", "team:b", "team:c"):
        await ledger.enqueue([a_build(n, root) for n in range(50)])

    claimed = await ledger.claim(BELIEFS, 9)

    assert [doorbell.root for doorbell in claimed.doorbells] == ["team:a", "team:b", "team:c"] * 3


async def test_i6_roots_take_turns_from_claim_to_claim(redis: Redis, ledger: Ledger) -> None:
    ledger = still_ledger(redis, LedgerOptions(root_concurrency=1000))
    for root in ("team:a", "team:b", "team:c"):
        await ledger.enqueue([a_build(n, root) for n in range(50)])

    claimed = [(await ledger.claim(BELIEFS, 1)).doorbells[0].root for _ in range(9)]

    assert claimed == ["team:a", "team:b", "team:c"] * 3


async def test_i6_a_root_with_a_new_build_at_every_claim_waits_its_turn(redis: Redis, ledger: Ledger) -> None:
    ledger = still_ledger(redis, LedgerOptions(root_concurrency=1000))
    await ledger.enqueue([a_build(n, "team:patient") for n in range(50)])
    await ledger.claim(BELIEFS, 1)
    roots: list[str] = []
    for n in range(10):
        await ledger.enqueue([a_build(n, "team:eager")])
        roots += [doorbell.root for doorbell in (await ledger.claim(BELIEFS, 1)).doorbells]

    assert Counter(roots) == {"team:patient": 5, "team:eager": 5}


async def test_i6_a_root_has_no_more_than_its_share_in_flight_over_all_queues(ledger: Ledger) -> None:
    await ledger.enqueue([a_build(n) for n in range(10)])
    await ledger.enqueue([an_ingest(n) for n in range(10)])
    builds = (await ledger.claim(BELIEFS, 3)).doorbells

    ingests = (await ledger.claim(INGEST)).doorbells

    assert (len(builds), len(ingests)) == (3, 1)
    assert (await ledger.claim(BELIEFS)).doorbells == ()
    await ledger.begin(ingests[0].lease, worker="w")
    await ledger.settle(ingests[0].lease, Success())
    assert len((await ledger.claim(BELIEFS)).doorbells) == 1


async def test_i5_a_job_due_before_all_others_of_its_root_does_not_wait_for_them(ledger: Ledger) -> None:
    await ledger.enqueue([a_build(1, delay=300)])
    await ledger.enqueue([a_build(2)])

    [doorbell] = (await ledger.claim(BELIEFS)).doorbells

    assert doorbell.lease.key == a_build(2).key


async def test_a_root_whose_backlog_is_done_leaves_nothing_to_look_at(redis: Redis, ledger: Ledger) -> None:
    await ledger.enqueue([a_build(n) for n in range(9)])
    while doorbells := (await ledger.claim(BELIEFS)).doorbells:
        for doorbell in doorbells:
            await ledger.begin(doorbell.lease, worker="w")
            await ledger.settle(doorbell.lease, Success())

    names = [f"{name}:{BELIEFS}" for name in ("heads", "asleep", "ring", "queued", "running")]
    names += [f"{name}:team:a" for name in ("capped", "held", "text")]
    assert await redis.exists(*("{tinymemory}:" + name for name in names)) == 0
    assert (await ledger.stats()).done_total == 9


async def test_a_slot_freed_on_any_way_is_claimed_again(ledger: Ledger, clock: MovableClock) -> None:
    await ledger.enqueue([a_build(n) for n in range(30)])
    leases = [doorbell.lease for doorbell in (await ledger.claim(BELIEFS)).doorbells]
    for lease in leases[:3]:
        await ledger.begin(lease, worker="w")

    await ledger.settle(leases[0], Success())
    assert len((await ledger.claim(BELIEFS)).doorbells) == 1
    await ledger.fail(leases[1], Failure(FailureKind.PERMANENT, JobError("x", "y")))
    assert len((await ledger.claim(BELIEFS)).doorbells) == 1
    await ledger.drop(leases[2].key)
    assert len((await ledger.claim(BELIEFS)).doorbells) == 1
    await ledger.give_back([leases[3]])
    assert len((await ledger.claim(BELIEFS)).doorbells) == 1
    await clock.advance(900)
    await ledger.reap()
    assert len((await ledger.claim(BELIEFS)).doorbells) == 4


async def test_i9_a_queue_holds_no_more_claimed_than_it_may(ledger: Ledger) -> None:
    await ledger.enqueue([a_build(1, f"team:{n}") for n in range(200)])

    first = await ledger.claim(BELIEFS)
    second = await ledger.claim(BELIEFS)
    for doorbell in first.doorbells[:10]:
        await ledger.begin(doorbell.lease, worker="w")
    third = await ledger.claim(BELIEFS)

    assert [len(claimed.doorbells) for claimed in (first, second, third)] == [64, 0, 10]


async def test_builds_that_a_wider_due_one_covers_go_with_it(ledger: Ledger) -> None:
    narrow = [exact(n, f"team:a/agent:{n}", "team:a", "conversation") for n in range(5)]
    await ledger.enqueue([*narrow[:3], subtree(9, "team:a"), *narrow[3:]])

    claimed = await ledger.claim(BELIEFS)

    assert [doorbell.lease.key for doorbell in claimed.doorbells] == [subtree(9, "team:a").key]
    assert claimed.folded == 5
    folds = await ledger.history()
    assert {(run.outcome, run.into) for run in folds} == {(Outcome.FOLDED, subtree(9, "team:a").key)}
    assert (await ledger.stats()).waiting == 0


async def test_a_folded_build_follows_the_run_that_covers_it(ledger: Ledger) -> None:
    narrow = exact(1, "team:a/agent:x", "team:a", "conversation")
    await ledger.enqueue([narrow, subtree(9, "team:a")])
    [doorbell] = (await ledger.claim(BELIEFS)).doorbells

    states = [(await ledger.status(narrow.key)).state]
    await ledger.begin(doorbell.lease, worker="w")
    states.append((await ledger.status(narrow.key)).state)
    await ledger.enqueue([subtree(9, "team:a", delay=60)])
    await ledger.settle(doorbell.lease, Success())
    after = await ledger.status(narrow.key)

    assert states == [JobState.QUEUED, JobState.RUNNING]
    # The wider build waits again for a later write; this one's are served.
    assert (after.state, after.run) == (JobState.DONE, doorbell.lease.task_id)
    shown = await ledger.show(narrow.key)
    assert shown is not None
    assert (shown.state, shown.outcome, shown.into) == (JobState.DONE, Outcome.FOLDED, doorbell.lease.key)


async def test_a_build_that_was_due_when_a_wider_one_was_claimed_folds_while_that_is_in_flight(
    redis: Redis, ledger: Ledger, clock: MovableClock
) -> None:
    ledger = still_ledger(redis, LedgerOptions(root_concurrency=2))
    await ledger.enqueue([exact(n, f"team:a/agent:{n}", "team:a", "conversation") for n in range(200)])
    await ledger.enqueue([exact(300, "team:a/agent:late", "team:a", "conversation", delay=5)])
    await ledger.enqueue([subtree(999, "team:a")])
    await clock.advance(1)
    await ledger.claim(BELIEFS)
    await clock.advance(5)
    while (await ledger.claim(BELIEFS)).folded:
        pass

    outcomes = Counter(run.outcome for run in await ledger.history(limit=1000))
    running = {job.key for job in await ledger.jobs()}
    # The late one was not due at the claim: its facts are not in that run.
    assert outcomes == {Outcome.FOLDED: 200}
    assert running == {subtree(999, "team:a").key, a_build(300).key}


async def test_what_is_not_covered_is_not_folded(ledger: Ledger) -> None:
    await ledger.enqueue(
        [
            subtree(1, "team:a/agent:x", "team:a", "conversation"),
            exact(0, "team:a/agent:x/user:u", "team:a", "document"),
            exact(3, "team:a/agent:xy", "team:a", "conversation"),
            exact(4, "team:a", "team:a", "conversation"),
        ]
    )
    await ledger.enqueue([exact(5, "team:a/agent:x/user:u", "team:a", "conversation", delay=60)])

    claimed = await ledger.claim(BELIEFS)

    assert (len(claimed.doorbells), claimed.folded) == (4, 0)


async def test_below_the_deepest_scope_there_is_nothing_to_descend_to(ledger: Ledger) -> None:
    deepest = "/".join(["team:a", *["agent:x"] * (MAX_DEPTH - 1)])
    await ledger.enqueue([subtree(1, deepest, "team:a", "conversation"), exact(2, deepest)])

    claimed = await ledger.claim(BELIEFS)

    assert [doorbell.lease.key for doorbell in claimed.doorbells] == [exact(2, deepest).key]
    assert claimed.folded == 1


async def test_two_builds_that_cover_each_other_leave_one_to_run(ledger: Ledger) -> None:
    twins = [a_build(n, "root", coverage=Coverage("root", n == 1, False)) for n in (1, 2)]
    await ledger.enqueue(twins)

    claimed = await ledger.claim(BELIEFS)

    assert (len(claimed.doorbells), claimed.folded) == (1, 1)


async def test_an_inheriting_build_covers_its_ancestors(ledger: Ledger) -> None:
    above = a_build(1, "root", coverage=Coverage("team:a", False, False, ("document",)))
    below = a_build(2, "root", coverage=Coverage("team:a/agent:x", True, False))
    await ledger.enqueue([above, below])

    claimed = await ledger.claim(BELIEFS)

    assert [doorbell.lease.key for doorbell in claimed.doorbells] == [below.key]
    assert claimed.folded == 1


async def test_i3_a_build_enqueued_after_it_was_folded_runs(ledger: Ledger, clock: MovableClock) -> None:
    narrow = exact(1, "team:a/agent:x", "team:a", "conversation")
    await ledger.enqueue([narrow, subtree(9, "team:a")])
    await ledger.claim(BELIEFS)

    await clock.advance(1)
    await ledger.enqueue([narrow])
    claimed = await ledger.claim(BELIEFS)

    assert [doorbell.lease.key for doorbell in claimed.doorbells] == [narrow.key]


async def test_i3_a_build_written_since_the_wider_one_was_claimed_is_not_folded_into_it(
    redis: Redis, ledger: Ledger, clock: MovableClock
) -> None:
    ledger = still_ledger(redis, LedgerOptions(build_max_wait=300))
    served, same_moment, later = (exact(n, f"team:a/agent:{n}", "team:a", "conversation") for n in range(3))
    await ledger.enqueue([served, same_moment, later])
    await clock.advance(301)
    await ledger.enqueue([subtree(9, "team:a", delay=60)])
    await ledger.run_now(subtree(9, "team:a").key)
    await ledger.claim(BELIEFS, 1)

    # All three have waited as long as they may, and are due since before the claim.
    again = [exact(n, f"team:a/agent:{n}", "team:a", "conversation", delay=60) for n in range(3)]
    await ledger.enqueue([again[1]])
    await clock.advance(1)
    await ledger.enqueue([again[2]])
    claimed = await ledger.claim(BELIEFS)

    assert {doorbell.lease.key for doorbell in claimed.doorbells} == {same_moment.key, later.key}
    assert claimed.folded == 1
    [fold] = await ledger.history()
    assert fold.key == served.key


async def test_i4_a_wider_build_that_is_not_due_does_not_go_in_the_place_of_one_that_is(
    ledger: Ledger,
) -> None:
    narrow = exact(1, "team:a/agent:x", "team:a", "conversation")
    await ledger.enqueue([narrow, subtree(9, "team:a", delay=60)])

    claimed = await ledger.claim(BELIEFS)

    assert [doorbell.lease.key for doorbell in claimed.doorbells] == [narrow.key]
    assert claimed.folded == 0


async def test_a_wider_build_that_waits_in_another_queue_is_left_to_it(ledger: Ledger) -> None:
    narrow, wide = exact(1, "team:a/agent:x", "team:a", "conversation"), subtree(9, "team:a")
    await ledger.enqueue([narrow, replace(wide, queue=INGEST)])

    claimed = [await ledger.claim(queue) for queue in (BELIEFS, INGEST)]

    assert [[doorbell.lease.key for doorbell in one.doorbells] for one in claimed] == [
        [narrow.key],
        [wide.key],
    ]
    assert [one.folded for one in claimed] == [0, 0]


async def test_what_was_folded_into_a_dead_build_is_found_dead(ledger: Ledger) -> None:
    narrow = exact(1, "team:a/agent:x", "team:a", "conversation")
    await ledger.enqueue([narrow])
    run = await begin_one(ledger, subtree(9, "team:a"))
    await ledger.fail(run.lease, Failure(FailureKind.PERMANENT, JobError("x", "y")))

    status = await ledger.status(narrow.key)

    assert (status.key, status.state) == (run.lease.key, JobState.DEAD)


async def test_a_wide_build_that_is_over_covers_nothing(ledger: Ledger, redis: Redis) -> None:
    lease = await claim_one(ledger, subtree(9, "team:a"))
    await ledger.begin(lease, worker="w")
    await ledger.settle(lease, Success())

    assert await redis.exists("{tinymemory}:wide:team:a|default") == 0


SEGMENTS = st.sampled_from(["team:a", "team:ab", "agent:x", "user:u"])
PATHS = st.lists(SEGMENTS, max_size=3) | st.lists(SEGMENTS, min_size=MAX_DEPTH, max_size=MAX_DEPTH)
KINDS = st.sets(st.sampled_from(["document", "conversation", "learning"]))
EVERY_KIND = {"document", "conversation", "learning"}


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), path=PATHS, flags=st.tuples(*[st.booleans()] * 4), kinds=KINDS, others=KINDS)
def test_the_ledger_and_the_library_agree_on_what_covers_what(
    redis_server: RedisServer,
    data: st.DataObject,
    path: list[str],
    flags: tuple[bool, ...],
    kinds: set[str],
    others: set[str],
) -> None:
    # Mostly on one path: chance alone seldom draws one inside the other.
    beside = data.draw(PATHS | st.integers(0, len(path)).map(lambda depth: path[:depth]))
    wide = Reach(Namespace.parse("/".join(path)), flags[0], flags[1])
    narrow = Reach(Namespace.parse("/".join(beside)), flags[2], flags[3])
    if data.draw(st.booleans()):
        wide, narrow = narrow, wide
    library = files("workers.ledger") / "lua" / "lib"
    script = "\n".join(
        [
            *((library / name).read_text() for name in ("names.lua", "wide.lua")),
            "return covers(ARGV[1], ARGV[2]) and 1 or 0",
        ]
    )

    with SyncRedis(port=redis_server.port) as client:
        answer = client.eval(script, 1, "{tinymemory}:", text_of(wide, kinds), text_of(narrow, others))

    assert answer == int(wide.covers(narrow) and (kinds or EVERY_KIND) >= (others or EVERY_KIND))


def text_of(reach: Reach, kinds: set[str]) -> str:
    return coverage_text(Coverage(str(reach.at), reach.inherit, reach.descendants, tuple(kinds)))


async def test_the_next_run_begins_in_the_round_trip_that_ends_the_last(ledger: Ledger) -> None:
    run = await begin_one(ledger, a_build(1))
    await ledger.enqueue([a_build(2)])

    calls = ledger.calls
    settle = calls.settle(run.lease, Success())
    settled, (following, claimed) = await ledger.both(settle, calls.claim_and_begin(BELIEFS, worker="w"))

    assert settled is not None
    assert following is not None
    assert (following.lease.key, following.attempts, following.envelope) == (a_build(2).key, 1, '{"n":2}')
    assert claimed.doorbells == ()
    assert await ledger.begin(following.lease, worker="w") is None
    assert await ledger.settle(following.lease, Success()) is not None


async def test_what_begins_at_once_needs_no_room_and_rings_when_nobody_is_rung_for(
    redis: Redis, ledger: Ledger
) -> None:
    ledger = still_ledger(redis, LedgerOptions(max_in_flight=4))
    await ledger.enqueue([a_build(1, f"team:t{n}") for n in range(9)])

    first, rung = await ledger.claim_and_begin(BELIEFS, worker="w")
    full = await ledger.claim(BELIEFS)
    second, none = await ledger.claim_and_begin(BELIEFS, worker="w")

    assert first is not None
    assert second is not None
    assert (len(rung.doorbells), len(full.doorbells), len(none.doorbells)) == (1, 3, 0)


async def test_a_claimed_job_that_others_have_passed_by_begins_before_them(
    redis: Redis, ledger: Ledger
) -> None:
    ledger = still_ledger(redis, LedgerOptions(max_in_flight=4))
    await ledger.enqueue([a_build(1, f"team:t{n}") for n in range(6)])
    [waits] = (await ledger.claim(BELIEFS, 1)).doorbells

    begun = [(await ledger.claim_and_begin(BELIEFS, worker="w"))[0] for _ in range(3)]

    assert [run.lease for run in begun if run is not None][2] == waits.lease
    assert await ledger.begin(waits.lease, worker="w") is None


async def test_whoever_is_free_begins_what_is_claimed_when_nothing_else_is_due(ledger: Ledger) -> None:
    await ledger.enqueue([a_build(1), a_build(2)])
    first, second = (await ledger.claim(BELIEFS)).doorbells

    begun = [(await ledger.claim_and_begin(BELIEFS, worker="w"))[0] for _ in range(3)]

    assert [run and run.lease for run in begun] == [first.lease, second.lease, None]
    assert await ledger.begin(first.lease, worker="w") is None


async def test_the_slot_of_a_claimed_job_that_is_parked_goes_to_what_the_cap_held_back(
    redis: Redis, ledger: Ledger
) -> None:
    ledger = still_ledger(redis, LedgerOptions(root_concurrency=1))
    await ledger.enqueue([an_ingest(1), an_ingest(2, profile="other")])
    [waits] = (await ledger.claim(INGEST)).doorbells
    await ledger.open_breaker(Party(waits.root, waits.profile), "no credits")

    run, claimed = await ledger.claim_and_begin(INGEST, worker="w")

    assert claimed.parked == 1
    assert run is not None
    assert run.profile != waits.profile


async def test_a_claimed_job_whose_breaker_opened_is_parked_and_another_begun(
    redis: Redis, ledger: Ledger
) -> None:
    ledger = still_ledger(redis, LedgerOptions(max_in_flight=2))
    await ledger.enqueue([a_build(1, f"team:t{n}") for n in range(3)])
    [waits] = (await ledger.claim(BELIEFS, 1)).doorbells
    await ledger.claim_and_begin(BELIEFS, worker="w")
    await ledger.open_breaker(Party(waits.root, "default"), "no credits")

    run, claimed = await ledger.claim_and_begin(BELIEFS, worker="w")

    assert run is not None
    assert run.root != waits.root
    assert claimed.parked == 1
    assert (await ledger.status(waits.lease.key)).state is JobState.PARKED
