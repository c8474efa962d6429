"""What a host gets for its jobs: handles, refusals, answers."""

import asyncio
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from redis import Redis

from tinymemory import AgentMemory, MemoryLayout, ReferenceEngine
from tinymemory.brain_input import BrainDocument
from tinymemory.errors import InvalidRequestError
from tinymemory.jobs import BuildBeliefs, IngestBrain
from tinymemory.lifecycle import RecallPolicy
from tinymemory.namespace import Namespace, Reach
from tinymemory.query import ConsolidateRequest
from workers import Enqueued, EnqueueState, JobState, MemoryJobs, WorkerSettings, job_key
from workers.ledger import Failure, FailureKind, JobError, Lease, Success, SyncLedger
from workers.testing import RedisServer

ROOT = "team:acme"
BELIEFS = "tinymemory.beliefs"
AT = datetime(2026, 9, 15, 9, 1, tzinfo=UTC)


def build(agent: str = "a") -> BuildBeliefs:
    reach = Reach.exact(f"{ROOT}/agent:{agent}")
    return BuildBeliefs(request=ConsolidateRequest(reach=reach))


def ingest(*texts: str) -> IngestBrain:
    return IngestBrain(documents=tuple(BrainDocument(source="pdf", text=text) for text in texts))  # pyright: ignore[reportArgumentType]  # a source may be its id


def claim_one(ledger: SyncLedger) -> Lease:
    [doorbell] = ledger.claim(BELIEFS, 1).doorbells
    assert ledger.run(ledger.calls.begin(doorbell.lease, worker="w")) is not None
    return doorbell.lease


def settle(ledger: SyncLedger, lease: Lease) -> None:
    assert ledger.run(ledger.calls.settle(lease, Success())) is not None


def run_one(ledger: SyncLedger) -> Lease:
    lease = claim_one(ledger)
    settle(ledger, lease)
    return lease


def fail_for_good(ledger: SyncLedger) -> None:
    failure = Failure(FailureKind.PERMANENT, JobError("ConfigError", "no such engine"))
    assert ledger.run(ledger.calls.fail(claim_one(ledger), failure)) is not None


# -- handing over


async def test_one_job_gets_one_handle(jobs: MemoryJobs) -> None:
    async with jobs:
        enqueued = await jobs.enqueue(build(), root=ROOT)

    assert enqueued.key == job_key(ROOT, "default", build())
    assert enqueued.state is EnqueueState.NEW


async def test_a_list_gets_a_list_in_its_order(jobs: MemoryJobs) -> None:
    async with jobs:
        one = await jobs.enqueue([build("a")], root=ROOT)
        two = await jobs.enqueue([build("b"), build("a")], root=Namespace.parse(ROOT))

    assert [(handle.key, handle.state) for handle in one] == [
        (job_key(ROOT, "default", build("a")), EnqueueState.NEW)
    ]
    assert [handle.state for handle in two] == [EnqueueState.NEW, EnqueueState.MERGED]


async def test_nothing_to_hand_over_asks_nobody(make_settings: Callable[..., WorkerSettings]) -> None:
    async with MemoryJobs(make_settings(redis_url="redis://127.0.0.1:1/0")) as jobs:
        assert await jobs.enqueue([], root=ROOT) == []
        assert jobs.enqueue_sync([], root=ROOT) == []


async def test_a_split_ingest_gets_a_handle_for_each_part(jobs: MemoryJobs) -> None:
    texts = [str(number) for number in range(250)]
    async with jobs:
        alone = await jobs.enqueue(ingest(*texts), root=ROOT)
        among = await jobs.enqueue([build(), ingest(*texts)], root=ROOT)

    assert isinstance(alone, list)
    assert [handle.state for handle in alone] == [EnqueueState.NEW] * 3
    assert [handle.key for handle in among[1:]] == [handle.key for handle in alone]
    assert [handle.state for handle in among] == [EnqueueState.NEW, *[EnqueueState.MERGED] * 3]


def test_a_batch_is_one_round_trip(jobs: MemoryJobs, sync_redis: Redis) -> None:
    jobs.enqueue_sync(build(), root=ROOT)
    sync_redis.config_resetstat()  # pyright: ignore[reportUnknownMemberType]  # redis-py leaves **kwargs untyped

    jobs.enqueue_sync([build(str(number)) for number in range(100)], root=ROOT)

    stats: dict[str, Any] = sync_redis.info("commandstats")  # pyright: ignore[reportAssignmentType, reportUnknownMemberType, reportUnknownVariableType]  # redis-py types both kinds of client at once
    assert stats["cmdstat_evalsha"]["calls"] == 1
    assert "cmdstat_script|load" not in stats


async def test_one_refused_job_refuses_the_whole_list_by_its_position(jobs: MemoryJobs, redis: Any) -> None:
    outside = BuildBeliefs(request=ConsolidateRequest(reach=Reach.exact("team:other")))
    async with jobs:
        with pytest.raises(InvalidRequestError, match=r"`jobs\[1\]`.*outside its root"):
            await jobs.enqueue([build(), outside], root=ROOT)

    assert await redis.keys() == []


@pytest.mark.parametrize("wrong", ["build", 7, None])
async def test_what_is_no_job_is_refused(jobs: MemoryJobs, wrong: Any) -> None:
    with pytest.raises(InvalidRequestError, match="`job`"):
        await jobs.enqueue(wrong, root=ROOT)
    with pytest.raises(InvalidRequestError, match="`job`"):
        jobs.enqueue_sync(wrong, root=ROOT)


async def test_a_build_is_due_after_the_delay_and_an_ingest_at_once(jobs: MemoryJobs) -> None:
    async with jobs:
        usual = await jobs.enqueue(build("a"), root=ROOT)
        sooner = await jobs.enqueue(build("b"), root=ROOT, delay=10)
        now = await jobs.enqueue(ingest("x"), root=ROOT)

    assert isinstance(now, Enqueued)
    assert abs(usual.due_at - now.due_at - timedelta(seconds=300)) < timedelta(seconds=5)
    assert abs(sooner.due_at - now.due_at - timedelta(seconds=10)) < timedelta(seconds=5)


def test_a_host_without_a_loop_gets_the_same(jobs: MemoryJobs) -> None:
    first = jobs.enqueue_sync(build(), root=ROOT)
    again = jobs.enqueue_sync([build()], root=ROOT)

    assert isinstance(first, Enqueued)
    assert isinstance(again, list)
    assert (first.state, again[0].state) == (EnqueueState.NEW, EnqueueState.MERGED)
    assert jobs.status_sync(first).state is JobState.WAITING


def test_a_large_payload_arrives_whole(jobs: MemoryJobs, sync_redis: Redis) -> None:
    handle = jobs.enqueue_sync(ingest("x" * 3_000_000), root=ROOT)

    assert isinstance(handle, Enqueued)
    [doorbell] = SyncLedger(sync_redis).claim("tinymemory.ingest", 1).doorbells
    ledger = SyncLedger(sync_redis)
    run = ledger.run(ledger.calls.begin(doorbell.lease, worker="w"))
    assert run is not None
    assert len(run.envelope) > 3_000_000


def test_many_threads_share_one(jobs: MemoryJobs) -> None:
    states: list[EnqueueState] = []

    def enqueue(number: int) -> None:
        for round_ in range(10):
            handle = jobs.enqueue_sync(build(f"{number}-{round_ % 2}"), root=ROOT)
            assert isinstance(handle, Enqueued)
            states.append(handle.state)

    threads = [threading.Thread(target=enqueue, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert states.count(EnqueueState.NEW) == 32
    assert states.count(EnqueueState.MERGED) == 128


async def test_a_thousand_turns_at_once_share_a_few_connections(jobs: MemoryJobs, redis: Any) -> None:
    async with jobs:
        handles = await asyncio.gather(
            *(jobs.enqueue(build(str(number)), root=ROOT) for number in range(1000))
        )
        clients = (await redis.info("clients"))["connected_clients"]

    assert all(handle.state is EnqueueState.NEW for handle in handles)
    assert clients < 80


def test_one_object_serves_one_loop_after_another(jobs: MemoryJobs) -> None:
    async def enqueue() -> Enqueued:
        async with jobs:
            return await jobs.enqueue(build(), root=ROOT)

    states = [asyncio.run(enqueue()).state for _ in range(3)]

    assert states == [EnqueueState.NEW, EnqueueState.MERGED, EnqueueState.MERGED]


# -- after a turn


def memory(policy: RecallPolicy | None = None) -> AgentMemory:
    return AgentMemory(ReferenceEngine(), MemoryLayout(Namespace.parse(ROOT)), "support-01", policy)


async def test_every_turn_gets_its_scope_built_some_day(jobs: MemoryJobs) -> None:
    agent = memory()
    report = await agent.post_turn("t1", 0, "Refunds take 30 days.", at=AT)

    async with jobs:
        handles = await jobs.after_turn(agent, report)
        now = await jobs.enqueue([ingest("x")], root=ROOT)

    assert [handle.key for handle in handles] == [job_key(ROOT, "default", agent.history_build())]
    idle = handles[0].due_at - now[0].due_at
    assert timedelta(seconds=895) < idle < timedelta(seconds=905)


async def test_the_regular_build_takes_the_idle_one_over(jobs: MemoryJobs) -> None:
    agent = memory(RecallPolicy(build_beliefs_every=2))
    async with jobs:
        first = await jobs.after_turn(agent, await agent.post_turn("t1", 0, "One.", at=AT))
        second = await jobs.after_turn(agent, await agent.post_turn("t1", 1, "Two.", at=AT))

    assert [handle.state for handle in first] == [EnqueueState.NEW]
    assert [handle.state for handle in second] == [EnqueueState.MERGED]
    assert second[0].key == first[0].key
    assert first[0].due_at - second[0].due_at > timedelta(seconds=590)


async def test_r55_a_policy_that_never_builds_gets_no_build(jobs: MemoryJobs) -> None:
    agent = memory(RecallPolicy(build_beliefs_every=None))

    async with jobs:
        assert await jobs.after_turn(agent, await agent.post_turn("t1", 9, "Ten.", at=AT)) == []


# -- following


async def test_every_state_is_an_answer_of_its_own(jobs: MemoryJobs, sync_ledger: SyncLedger) -> None:
    async with jobs:
        handle = await jobs.enqueue(build(), root=ROOT, delay=0)
        seen = [(await jobs.status(handle)).state]
        [doorbell] = sync_ledger.claim(BELIEFS, 1).doorbells
        seen.append((await jobs.status(handle.key)).state)
        sync_ledger.run(sync_ledger.calls.begin(doorbell.lease, worker="w"))
        seen.append((await jobs.status(handle)).state)
        settle(sync_ledger, doorbell.lease)
        seen.append((await jobs.status(handle)).state)
        await jobs.enqueue(build(), root=ROOT, delay=0)
        fail_for_good(sync_ledger)
        seen.append((await jobs.status(handle)).state)
        other = await jobs.enqueue(build("b"), root=ROOT)
        sync_ledger.run(sync_ledger.calls.drop(other.key))
        seen.append((await jobs.status(other)).state)
        seen.append((await jobs.status("build:team:acme:0")).state)

    assert seen == ["waiting", "queued", "running", "done", "dead", "cancelled", "unknown"]


async def test_a_status_prints_as_its_state_and_equals_its_name(jobs: MemoryJobs) -> None:
    async with jobs:
        handle = await jobs.enqueue(build(), root=ROOT)
        status, again = await jobs.status(handle), await jobs.status(handle)

    assert (str(status), status) == ("waiting", "waiting")
    assert status in ("waiting", "queued")
    assert status == again
    assert status != "done"
    assert status != 1
    assert hash(status) == hash("waiting")


async def test_a_wait_ends_with_the_run_and_names_it(jobs: MemoryJobs, sync_ledger: SyncLedger) -> None:
    async with jobs:
        handle = await jobs.enqueue(build(), root=ROOT, delay=0)
        waiting = asyncio.create_task(jobs.wait(handle, timeout=30))
        lease = run_one(sync_ledger)

        status = await waiting

    assert (status.state, status.run) == (JobState.DONE, lease.task_id)


async def test_a_rerun_handle_waits_for_the_run_after(jobs: MemoryJobs, sync_ledger: SyncLedger) -> None:
    async with jobs:
        await jobs.enqueue(build(), root=ROOT, delay=0)
        first = claim_one(sync_ledger)
        again = await jobs.enqueue(build(), root=ROOT, delay=0)
        waiting = asyncio.create_task(jobs.wait(again, timeout=30))
        await asyncio.sleep(0.05)
        settle(sync_ledger, first)
        await asyncio.sleep(0.05)
        assert not waiting.done()
        second = run_one(sync_ledger)

        status = await waiting

    assert again.state is EnqueueState.RERUN
    assert (status.state, status.run) == (JobState.DONE, second.task_id)


async def test_what_others_enqueue_later_keeps_nobody_waiting(
    jobs: MemoryJobs, sync_ledger: SyncLedger
) -> None:
    async with jobs:
        handle = await jobs.enqueue(build(), root=ROOT, delay=0)
        waiting = asyncio.create_task(jobs.wait(handle, timeout=30))
        await asyncio.sleep(0.05)
        lease = claim_one(sync_ledger)
        await jobs.enqueue(build(), root=ROOT, delay=0)
        settle(sync_ledger, lease)

        status = await waiting
        now = await jobs.status(handle)

    assert (status.state, status.run) == (JobState.DONE, lease.task_id)
    assert now.state is JobState.WAITING


async def test_a_wait_ends_with_the_job_dead_or_dropped(jobs: MemoryJobs, sync_ledger: SyncLedger) -> None:
    async with jobs:
        dead = await jobs.enqueue(build("a"), root=ROOT, delay=0)
        fail_for_good(sync_ledger)
        dropped = await jobs.enqueue(build("b"), root=ROOT)
        sync_ledger.run(sync_ledger.calls.drop(dropped.key))

        assert (await jobs.wait(dead, timeout=30)).state is JobState.DEAD
        assert (await jobs.wait(dropped, timeout=30)).state is JobState.CANCELLED


async def test_a_wait_for_what_nobody_knows_ends_at_once(jobs: MemoryJobs) -> None:
    async with jobs:
        assert (await jobs.wait("build:team:acme:0", timeout=30)).state is JobState.UNKNOWN


async def test_a_wait_that_takes_too_long_says_where_the_job_is(jobs: MemoryJobs) -> None:
    async with jobs:
        handle = await jobs.enqueue(build(), root=ROOT)
        with pytest.raises(TimeoutError, match=rf"{handle.key} is waiting after 0.1 s"):
            await jobs.wait(handle, timeout=0.1)
    with pytest.raises(TimeoutError, match="is waiting"):
        jobs.wait_sync(handle, timeout=0)


def test_a_thread_may_wait_too(jobs: MemoryJobs, sync_ledger: SyncLedger) -> None:
    handle = jobs.enqueue_sync(build(), root=ROOT, delay=0)
    assert isinstance(handle, Enqueued)
    run_one(sync_ledger)

    assert jobs.wait_sync(handle, timeout=30).state is JobState.DONE


async def test_r19_every_handle_of_a_debounced_scope_names_the_build_that_covered_it(
    jobs: MemoryJobs, sync_ledger: SyncLedger
) -> None:
    agent = memory(RecallPolicy(build_beliefs_every=1))
    async with jobs:
        handles: list[Enqueued] = []
        for index in range(20):
            report = await agent.post_turn("t1", index, f"Turn {index}.", at=AT)
            handles += await jobs.enqueue(report.jobs, root=ROOT, delay=0)
        waits = [asyncio.create_task(jobs.wait(handle, timeout=30)) for handle in handles]
        await asyncio.sleep(0.1)
        lease = run_one(sync_ledger)

        statuses = await asyncio.gather(*waits)

    assert len(handles) == 20
    assert {(status.state, status.run) for status in statuses} == {(JobState.DONE, lease.task_id)}


async def test_r19_a_folded_builds_handle_follows_the_build_that_covers_it(
    jobs: MemoryJobs, sync_ledger: SyncLedger
) -> None:
    wide = BuildBeliefs(request=ConsolidateRequest(reach=Reach.subtree(ROOT)))
    async with jobs:
        narrow = await jobs.enqueue(build(), root=ROOT, delay=0)
        covering = await jobs.enqueue(wide, root=ROOT, delay=0)
        doorbells = sync_ledger.claim(BELIEFS, 5).doorbells
        assert [doorbell.lease.key for doorbell in doorbells] == [covering.key]
        lease = doorbells[0].lease
        sync_ledger.run(sync_ledger.calls.begin(lease, worker="w"))
        settle(sync_ledger, lease)

        status = await jobs.wait(narrow, timeout=30)

    assert (status.key, status.state, status.run) == (covering.key, JobState.DONE, lease.task_id)


async def test_r30_a_failed_or_finished_job_stands_in_nobodys_way(
    jobs: MemoryJobs, sync_ledger: SyncLedger
) -> None:
    async with jobs:
        await jobs.enqueue(build(), root=ROOT, delay=0)
        fail_for_good(sync_ledger)
        after_failure = await jobs.enqueue(build(), root=ROOT, delay=0)
        run_one(sync_ledger)
        after_success = await jobs.enqueue(build(), root=ROOT, delay=0)
        run_one(sync_ledger)

        status = await jobs.status(after_success)

    assert (after_failure.state, after_success.state) == (EnqueueState.NEW, EnqueueState.NEW)
    assert status.state is JobState.DONE


async def test_the_parts_of_an_ingest_show_how_far_it_is(jobs: MemoryJobs, sync_ledger: SyncLedger) -> None:
    async with jobs:
        handles = await jobs.enqueue([ingest(*map(str, range(250)))], root=ROOT)
        [doorbell] = sync_ledger.claim("tinymemory.ingest", 1).doorbells
        sync_ledger.run(sync_ledger.calls.begin(doorbell.lease, worker="w"))
        settle(sync_ledger, doorbell.lease)

        progress = await jobs.progress(handles)

    assert (progress.total, progress.done, progress.waiting) == (3, 1, 2)


async def test_many_jobs_are_asked_for_in_their_order(make_settings: Callable[..., WorkerSettings]) -> None:
    async with MemoryJobs(make_settings()) as jobs:
        handle = await jobs.enqueue(build(), root=ROOT)
        keys = [f"ingest:{ROOT}:{number:020x}" for number in range(1200)]
        keys[1100] = handle.key

        statuses = await jobs.statuses(keys)

        assert await jobs.statuses([]) == []
    assert [status.key for status in statuses] == keys
    assert [number for number, status in enumerate(statuses) if status == "waiting"] == [1100]


# -- settings


def test_it_is_built_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, redis_server: RedisServer, sync_redis: Redis
) -> None:
    monkeypatch.setenv("TINYMEMORY_REDIS_URL", redis_server.url)
    monkeypatch.setenv("TINYMEMORY_KEY_PREFIX", "{other}:")

    with MemoryJobs.from_env() as jobs:
        jobs.enqueue_sync(build(), root=ROOT)

    keys: list[str] = sync_redis.keys()  # pyright: ignore[reportAssignmentType, reportUnknownMemberType]  # redis-py types both kinds of client at once
    assert keys
    assert all(key.startswith("{other}:") for key in keys)


async def test_i8_no_credential_is_in_a_repr(make_settings: Callable[..., WorkerSettings]) -> None:
    settings = make_settings(redis_url="redis://:hunter2@127.0.0.1:1/0", profiles={"p": {"api_key": "k3y"}})

    with MemoryJobs(settings) as jobs:
        shown = repr(jobs) + repr(settings) + repr(jobs.spool) + str(settings)

    assert "hunter2" not in shown
    assert "k3y" not in shown


def test_pauses_between_looks_grow_to_a_second() -> None:
    from workers.waiting import Waiting

    waiting = Waiting("build:root:0", None)
    pauses = [waiting.pause() for _ in range(20)]

    assert pauses[0] == 0.02
    assert all(a <= b for a, b in pairwise(pauses))
    assert pauses[-1] == 1.0
