"""What becomes of jobs whose engine throttles, refuses, fails or is away."""

import asyncio
import time
from collections.abc import Callable
from itertools import pairwise

from harness import Live, build, ingest, until

from workers.ledger import JobState, Outcome

MakeLive = Callable[..., Live]


async def test_r46_a_throttled_engine_shows_in_the_counts_and_a_worker_starts_without_asking_it(
    live: MakeLive,
) -> None:
    layer = live(backoff_base=2.0, backoff_cap=5.0)
    layer.stub.behave(error="UnavailableError", message="429: too many requests")
    worker, _ = layer.programs.start_together(("worker",), ("beat",))
    (enqueued,) = await layer.enqueue(build("team:r46/agent:a"), root="team:r46")

    async def has_failed() -> bool:
        return len(await layer.history(enqueued.key)) >= 1

    await until(has_failed)
    worker.kill()
    asked = len(layer.stub.calls(what="")) + len(layer.stub.calls("health", ""))
    layer.programs.start("worker", "-n", "next@%h")
    async with layer.ledger() as ledger:
        job = await ledger.show(enqueued.key)
        stats = await ledger.stats()
    assert len(layer.stub.calls(what="")) + len(layer.stub.calls("health", "")) <= asked + 2
    assert job is not None
    assert job.error is not None
    assert (job.error.kind, job.attempts >= 1) == ("UnavailableError", True)
    assert job.due_at is not None
    assert stats.retried_total >= 1


async def test_r47_an_account_out_of_credits_is_parked_at_once_and_resumes_when_well(shared: Live) -> None:
    layer = shared
    layer.stub.behave(
        "team:poor", error="InsufficientCreditsError", message="no credits", health="no credits"
    )
    poor = await layer.enqueue(*(build(f"team:poor/agent:a{n}") for n in range(50)), root="team:poor")
    rich = await layer.one(build("team:rich/agent:a"), root="team:rich")
    await layer.wait_over(rich.key)
    await until(lambda: len(layer.stub.calls("health", root="team:poor")) >= 2)

    async with layer.ledger() as ledger:
        (breaker,) = [one for one in await ledger.breakers() if one.root == "team:poor"]
        job = await ledger.show(poor[0].key)
    assert breaker.profile == "default"
    assert "no credits" in breaker.reason
    assert breaker.parked > 0
    # As many as were running when the first answer came, and none since.
    assert len(layer.stub.calls(root="team:poor")) <= layer.settings.root_concurrency
    assert job is not None
    assert job.attempts == 0

    layer.stub.behave("team:poor")
    statuses = await layer.wait_over(*(one.key for one in poor))
    assert {status.state for status in statuses} == {JobState.DONE}


async def test_r48_rate_limits_with_a_time_to_come_back_kill_no_document(live: MakeLive) -> None:
    layer = live(max_attempts=3, root_concurrency=8, breaker_threshold=1000)
    layer.stub.behave(limit_per_s=10)
    layer.programs.start_together(("worker", "-c", "8"), ("beat",))
    keys = [one.key for one in await layer.enqueue(*(ingest(f"d{n}") for n in range(40)), root="team:r48")]
    statuses = await layer.wait_over(*keys)

    assert {status.state for status in statuses} == {JobState.DONE}
    assert layer.stub.calls("store", "UnavailableError"), "the limit was never met"
    async with layer.ledger() as ledger:
        assert (await ledger.stats()).throttled_total > 0


async def test_r52_a_hopeless_document_does_not_hold_up_a_hundred_good_ones(shared: Live) -> None:
    layer = shared
    layer.stub.behave("hopeless", error="EngineError", message="constraint violated")
    bad = await layer.one(ingest("hopeless"), root="team:r52")
    good = [one.key for one in await layer.enqueue(*(ingest(f"g{n}") for n in range(100)), root="team:r52")]
    statuses = await layer.wait_over(bad.key, *good)

    assert statuses[0].state is JobState.DEAD
    assert {status.state for status in statuses[1:]} == {JobState.DONE}
    async with layer.ledger() as ledger:
        (letter,) = await ledger.dead(root="team:r52")
    assert letter.error is not None
    assert (letter.attempts, letter.error.message) == (3, "engine error: constraint violated")


async def test_r55_a_build_triggers_no_build(shared: Live) -> None:
    first = await shared.one(build("team:r55/agent:a"), root="team:r55")
    await shared.wait_over(first.key)
    await asyncio.sleep(3 * shared.settings.sweep_interval)

    async with shared.ledger() as ledger:
        runs = await ledger.history(root="team:r55")
    assert len(runs) == 1
    assert len(shared.stub.calls(root="team:r55")) == 1


async def test_an_ingest_enqueues_the_build_of_its_source_in_the_same_step(shared: Live) -> None:
    enqueued = await shared.one(ingest("followed"), root="team:follow")
    await shared.wait_over(enqueued.key)
    await until(lambda: len(shared.stub.calls(root="team:follow")) == 1)

    (call,) = shared.stub.calls(root="team:follow")
    assert call.about == "team:follow/source:pdf"


async def test_a_permanent_error_is_dead_at_once_with_its_reason(shared: Live) -> None:
    errors = ("InvalidRequestError", "ConfigError", "ConflictError", "NotFoundError")
    keys: list[str] = []
    for error in errors:
        root = f"team:perm-{error}"
        shared.stub.behave(root, error=error, message="for good")
        keys.append((await shared.one(build(f"{root}/agent:a"), root=root)).key)
    await shared.wait_over(*keys)

    runs = [await shared.history(key) for key in keys]
    assert [[run.outcome for run in each] for each in runs] == [[Outcome.DEAD]] * 4
    assert [each[0].error.kind for each in runs if each[0].error] == list(errors)


async def test_an_unreachable_engine_parks_its_whole_profile(live: MakeLive) -> None:
    layer = live(probe_interval=0.3, probe_cap=0.6)
    layer.stub.behave(error="UnreachableError", message="connection refused", health="down")
    layer.programs.start_together(("worker",), ("beat",))
    one = await layer.one(build("team:u1/agent:a"), root="team:u1")
    await until(lambda: len(layer.stub.calls()) == 1)
    two = await layer.one(build("team:u2/agent:a"), root="team:u2")

    async def both_parked() -> bool:
        return {await layer.state(key) for key in (one.key, two.key)} == {JobState.PARKED}

    await until(both_parked)
    assert {call.root for call in layer.stub.calls()} == {"team:u1"}
    layer.stub.behave()
    await layer.wait_over(one.key, two.key)


async def test_r59_one_busy_tenant_does_not_hold_up_another(shared: Live) -> None:
    layer = shared
    layer.stub.behave("team:busy", sleep=0.1)
    await layer.enqueue(*(ingest(f"a{n}") for n in range(200)), root="team:busy")
    await until(lambda: len(layer.stub.calls("store", root="team:busy")) > 10)

    started = time.monotonic()
    quiet = [
        (await layer.one(ingest("b"), root="team:quiet")).key,
        (await layer.one(build("team:quiet/agent:b"), root="team:quiet")).key,
    ]
    await layer.wait_over(*quiet)

    assert time.monotonic() - started < layer.settings.sweep_interval + 3.0
    assert len(layer.stub.calls("store", "end", root="team:busy")) < 200
    async with layer.ledger() as ledger:
        await ledger.erase("team:busy")


async def test_r25_what_is_written_after_a_build_is_built_too(shared: Live) -> None:
    for round_ in range(3):
        enqueued = await shared.one(build("team:r25/agent:a"), root="team:r25")
        await shared.wait_over(enqueued.key)
        assert enqueued.state == "new"
        assert len(shared.stub.calls(root="team:r25")) == round_ + 1


async def test_r25_what_no_host_enqueued_is_built_when_the_engine_knows_of_it(shared: Live) -> None:
    first = await shared.one(build("team:r25e/agent:a"), root="team:r25e")
    await shared.wait_over(first.key)

    shared.stub.behave("team:r25e", unbuilt=["team:r25e/agent:b"])
    await until(lambda: "team:r25e/agent:b" in {c.about for c in shared.stub.calls(root="team:r25e")})
    shared.stub.behave("team:r25e")


async def test_r26_one_sweep_drains_a_backlog_of_many_rounds(live: MakeLive) -> None:
    layer = live(max_in_flight=10, root_concurrency=4)
    roots = [f"team:r26-{n}" for n in range(10)]
    for root in roots:
        await layer.enqueue(*(build(f"{root}/agent:a{n}") for n in range(30)), root=root)
    layer.programs.start("worker", "-c", "4")

    await layer.sweep()

    await until(lambda: len(layer.stub.calls(what="end")) == 300)


async def test_r33_steady_traffic_puts_a_build_off_no_longer_than_the_longest_wait(shared: Live) -> None:
    layer = shared
    started = time.time()
    key = ""
    while time.time() - started < 7.0:
        key = (await layer.one(build("team:r33/agent:a"), root="team:r33", delay=1.0)).key
        await asyncio.sleep(0.25)
    await layer.wait_over(key)

    starts = [started, *(call.at for call in layer.stub.calls(root="team:r33"))]
    gaps = [later - earlier for earlier, later in pairwise(starts)]
    assert max(gaps[:-1]) < 2.0 + layer.settings.sweep_interval + 2.0
    assert min(gaps) >= 1.0


async def test_r31_retrying_what_is_dead_revives_each_key_once_and_leaves_what_lives(shared: Live) -> None:
    shared.stub.behave("team:r31", error="ConflictError")
    a, b = [(await shared.one(build(f"team:r31/agent:{x}"), root="team:r31")).key for x in "ab"]
    await shared.wait_over(a, b)
    for _ in range(2):
        await shared.one(build("team:r31/agent:a"), root="team:r31")
        await shared.one(build("team:r31/agent:b"), root="team:r31")
        await shared.wait_over(a, b)
    failed = len(shared.stub.calls(root="team:r31"))
    shared.stub.behave("team:r31", sleep=1.0)
    alive = await shared.one(build("team:r31/agent:a"), root="team:r31")
    await until(lambda: len(shared.stub.calls(root="team:r31")) == failed + 1)

    async with shared.ledger() as ledger:
        revived = await ledger.retry([a, b])
    await shared.wait_over(a, b)

    assert alive.state == "new"
    assert revived == [False, True]
    assert len(shared.stub.calls(root="team:r31")) == failed + 2
