"""Hosts while Redis is paused, frozen, dead or nowhere: what a call costs, and what becomes of its jobs."""

import asyncio
import os
import signal
import socket
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

import pytest
from redis import Redis

from tinymemory import AgentMemory, MemoryLayout, ReferenceEngine
from tinymemory.brain_input import BrainDocument
from tinymemory.errors import UnavailableError
from tinymemory.jobs import BuildBeliefs, IngestBrain
from tinymemory.lifecycle import RecallPolicy
from tinymemory.namespace import Namespace, Reach
from tinymemory.query import ConsolidateRequest
from workers import Enqueued, EnqueueState, JobState, MemoryJobs, WorkerSettings, job_key
from workers.ledger import Success, SyncLedger
from workers.testing import RedisServer

ROOT = "team:acme"
ONCE = 0.25
"""What the first call may cost, in seconds."""
NOTHING = 0.05
"""What any later one may, fsync of a busy disk included."""

MakeSettings = Callable[..., WorkerSettings]


def build(agent: str = "a") -> BuildBeliefs:
    return BuildBeliefs(request=ConsolidateRequest(reach=Reach.exact(f"{ROOT}/agent:{agent}")))


@pytest.fixture
def spool_dir(tmp_path: Path) -> Path:
    return tmp_path / "spool"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """A server of the test's own, to be frozen and killed."""
    with RedisServer(tmp_path / "redis") as server:
        yield server


@contextmanager
def paused(server: RedisServer) -> Generator[None]:
    """No write is answered; reads are."""
    with Redis(port=server.port) as client:
        client.execute_command("CLIENT", "PAUSE", "120000", "WRITE")  # pyright: ignore[reportUnknownMemberType]  # redis-py leaves **kwargs untyped
        try:
            yield
        finally:
            client.execute_command("CLIENT", "UNPAUSE")  # pyright: ignore[reportUnknownMemberType]  # as above


@contextmanager
def frozen(server: RedisServer) -> Generator[None]:
    """The kernel accepts connections, and nobody is at home."""
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


@contextmanager
def nowhere() -> Generator[str]:
    """A port whose backlog is full: it neither answers nor refuses."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield f"redis://127.0.0.1:{listener.getsockname()[1]}/0"
        for filler in fillers:
            filler.close()


def seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


async def eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.02)


def is_waiting(ledger: SyncLedger, key: str) -> bool:
    return ledger.status(key).state is JobState.WAITING


def owed(ledger: SyncLedger, *agents: str) -> list[JobState]:
    return [ledger.status(job_key(ROOT, "default", build(agent))).state for agent in agents]


# -- what it costs


@pytest.mark.parametrize("warm", [True, False], ids=["connected", "not connected yet"])
@pytest.mark.parametrize("stall", [paused, frozen])
def test_r13_a_stalled_redis_costs_a_host_without_a_loop_one_short_wait_and_then_nothing(
    server: RedisServer,
    spool_dir: Path,
    stall: Callable[[RedisServer], AbstractContextManager[None]],
    *,
    warm: bool,
) -> None:
    settings = WorkerSettings.load(redis_url=server.url, spool_dir=spool_dir)
    firsts: list[float] = []
    laters: list[float] = []
    # The best of three: other processes on the machine are no part of the promise.
    for _ in range(3):
        with MemoryJobs(settings) as jobs:
            if warm:
                jobs.enqueue_sync(build("first"), root=ROOT)
            states: list[EnqueueState] = []

            def enqueue(jobs: MemoryJobs = jobs, states: list[EnqueueState] = states) -> None:
                states.append(jobs.enqueue_sync(build(str(len(states))), root=ROOT).state)

            with stall(server):
                firsts.append(seconds(enqueue))
                laters.append(max(seconds(enqueue) for _ in range(20)))

        assert states == [EnqueueState.SPOOLED] * 21
    assert min(firsts) < ONCE
    assert min(laters) < NOTHING


@pytest.mark.parametrize("warm", [True, False], ids=["connected", "not connected yet"])
@pytest.mark.parametrize("stall", [paused, frozen])
async def test_r13_a_stalled_redis_never_stalls_the_loop_and_the_build_runs_later(
    server: RedisServer,
    spool_dir: Path,
    stall: Callable[[RedisServer], AbstractContextManager[None]],
    *,
    warm: bool,
) -> None:
    gaps: list[float] = []

    async def tick() -> None:
        last = time.perf_counter()
        while True:
            await asyncio.sleep(0.01)
            now = time.perf_counter()
            gaps.append(now - last)
            last = now

    memory = AgentMemory(ReferenceEngine(), MemoryLayout(Namespace.parse(ROOT)), "a", RecallPolicy())
    settings = WorkerSettings.load(redis_url=server.url, spool_dir=spool_dir)
    firsts: list[float] = []
    laters: list[float] = []
    stalls: list[float] = []
    # The best of three, as above.
    for _ in range(3):
        async with MemoryJobs(settings) as jobs:
            if warm:
                await jobs.enqueue(build("first"), root=ROOT)
            gaps.clear()
            ticker = asyncio.create_task(tick())
            with stall(server):
                report = await memory.post_turn("t", 0, "Noted.")
                started = time.perf_counter()
                handles = await jobs.after_turn(memory, report)
                firsts.append(time.perf_counter() - started)
                again = await jobs.after_turn(memory, report)
                laters.append(time.perf_counter() - started - firsts[-1])
            ticker.cancel()
            stalls.append(max(gaps))

            with Redis(port=server.port, decode_responses=True) as client:
                ledger = SyncLedger(client)
                key = handles[0].key
                await eventually(partial(is_waiting, ledger, key))

        assert report.receipt.id
        assert [handle.state for handle in [*handles, *again]] == [EnqueueState.SPOOLED] * 2
    assert min(firsts) < ONCE
    assert min(laters) < NOTHING
    assert min(stalls) < NOTHING


def test_an_address_nobody_answers_at_costs_the_same(make_settings: MakeSettings) -> None:
    with nowhere() as url, MemoryJobs(make_settings(redis_url=url)) as jobs:

        def enqueue() -> None:
            with pytest.raises(UnavailableError):
                jobs.enqueue_sync(build(), root=ROOT)

        first = seconds(enqueue)
        later = max(seconds(enqueue) for _ in range(20))

    assert first < ONCE
    assert later < NOTHING


def test_many_threads_find_out_together_and_later_ones_know(
    server: RedisServer, make_settings: MakeSettings
) -> None:
    with MemoryJobs(make_settings(redis_url=server.url)) as jobs, frozen(server):
        with pytest.raises(UnavailableError, match="did not answer in time"):
            jobs.enqueue_sync(build(), root=ROOT)
        with pytest.raises(UnavailableError, match="redis is away"):
            jobs.enqueue_sync(build(), root=ROOT)


def test_a_large_payload_finds_a_frozen_redis_out_as_quickly(
    server: RedisServer, make_settings: MakeSettings
) -> None:
    large = IngestBrain(documents=(BrainDocument.model_validate({"source": "pdf", "text": "x" * 4_000_000}),))
    with MemoryJobs(make_settings(redis_url=server.url)) as jobs:
        jobs.enqueue_sync(build(), root=ROOT)
        with frozen(server):

            def enqueue() -> None:
                with pytest.raises(UnavailableError):
                    jobs.enqueue_sync(large, root=ROOT)

            # Reading and naming four megabytes takes a while of its own.
            assert seconds(enqueue) < 4 * ONCE


# -- what it does


def test_without_a_spool_an_outage_is_an_error(make_settings: MakeSettings) -> None:
    with (
        MemoryJobs(make_settings(redis_url="redis://:hunter2@127.0.0.1:1/0")) as jobs,
        pytest.raises(UnavailableError) as caught,
    ):
        jobs.enqueue_sync(build(), root=ROOT)

    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in str(caught.value.__cause__)


async def test_a_refused_connection_opens_no_circuit_so_that_the_next_call_tries(
    server: RedisServer, make_settings: MakeSettings
) -> None:
    async with MemoryJobs(make_settings(redis_url=server.url)) as jobs:
        await jobs.enqueue(build(), root=ROOT)
        server.kill()
        for _ in range(3):
            with pytest.raises(UnavailableError):
                await jobs.enqueue(build(), root=ROOT)
        server.start()

        handle = await jobs.enqueue(build(), root=ROOT)

    assert handle.state is EnqueueState.MERGED


def test_a_full_spool_is_an_error_that_says_so(server: RedisServer, spool_dir: Path) -> None:
    settings = WorkerSettings.load(redis_url=server.url, spool_dir=spool_dir, spool_limit=1500)
    server.kill()
    with MemoryJobs(settings) as jobs:
        jobs.enqueue_sync(build("a"), root=ROOT)
        with pytest.raises(UnavailableError, match="spool is full"):
            jobs.enqueue_sync([build(str(number)) for number in range(5)], root=ROOT)


def test_the_next_contact_of_anyone_on_the_folder_replays_it_in_order(
    server: RedisServer, spool_dir: Path
) -> None:
    settings = WorkerSettings.load(redis_url=server.url, spool_dir=spool_dir)
    server.kill()
    with MemoryJobs(settings) as jobs:
        [a, b] = jobs.enqueue_sync([build("a"), build("b")], root=ROOT)
    server.start()

    with MemoryJobs(settings) as other, Redis(port=server.port, decode_responses=True) as client:
        other.enqueue_sync(build("c"), root=ROOT)

        states = owed(SyncLedger(client), "a", "b", "c")
    assert [a.state, b.state] == [EnqueueState.SPOOLED] * 2
    assert states == [JobState.WAITING] * 3
    assert other.spool is not None
    assert other.spool.stats().lines == 0


async def test_a_later_contact_finds_what_another_process_spooled_since(
    server: RedisServer, spool_dir: Path, make_settings: MakeSettings
) -> None:
    settings = WorkerSettings.load(redis_url=server.url, spool_dir=spool_dir)
    away = WorkerSettings.load(redis_url="redis://127.0.0.1:1/0", spool_dir=spool_dir)
    async with MemoryJobs(settings) as jobs, MemoryJobs(away) as other:
        for number in range(5):
            await other.enqueue(build(f"spooled-{number}"), root=ROOT)
            await jobs.enqueue(build("direct"), root=ROOT)
            status = await jobs.status(job_key(ROOT, "default", build(f"spooled-{number}")))

            assert status.state is JobState.WAITING


async def test_a_spooled_handle_can_be_waited_for(server: RedisServer, spool_dir: Path) -> None:
    settings = WorkerSettings.load(redis_url=server.url, spool_dir=spool_dir)
    server.kill()
    async with MemoryJobs(settings) as jobs:
        handle = await jobs.enqueue(build(), root=ROOT, delay=0)
        waiting = asyncio.create_task(jobs.wait(handle, timeout=30))
        await asyncio.sleep(0.1)
        server.start()
        with Redis(port=server.port, decode_responses=True) as client:
            ledger = SyncLedger(client)
            await eventually(lambda: is_waiting(ledger, handle.key))
            [doorbell] = ledger.claim("tinymemory.beliefs", 1).doorbells
            ledger.run(ledger.calls.begin(doorbell.lease, worker="w"))
            ledger.run(ledger.calls.settle(doorbell.lease, Success()))

        status = await waiting

    assert handle.state is EnqueueState.SPOOLED
    assert (status.state, status.run) == (JobState.DONE, doorbell.lease.task_id)


async def test_a_host_that_says_nothing_more_is_replayed_when_redis_returns(
    server: RedisServer, spool_dir: Path
) -> None:
    settings = WorkerSettings.load(redis_url=server.url, spool_dir=spool_dir)
    async with MemoryJobs(settings) as jobs:
        with frozen(server):
            await jobs.enqueue([build(str(number)) for number in range(300)], root=ROOT)

        spool = jobs.spool
        assert spool is not None
        await eventually(lambda: spool.stats().lines == 0)
        with Redis(port=server.port, decode_responses=True) as client:
            assert owed(SyncLedger(client), "0", "299") == [JobState.WAITING] * 2


def test_a_long_spool_holds_no_call_up(server: RedisServer, spool_dir: Path) -> None:
    settings = WorkerSettings.load(redis_url=server.url, spool_dir=spool_dir)
    server.kill()
    with MemoryJobs(settings) as jobs:
        for batch in range(20):
            jobs.enqueue_sync([build(f"{batch}-{number}") for number in range(500)], root=ROOT)
    server.start()

    with MemoryJobs(settings) as jobs, Redis(port=server.port, decode_responses=True) as client:
        took = seconds(lambda: jobs.enqueue_sync(build("now"), root=ROOT))
        spool = jobs.spool
        assert spool is not None
        left = spool.stats().lines
        asyncio.run(eventually(lambda: spool.stats().lines == 0))

        assert owed(SyncLedger(client), "now", "0-0", "19-499") == [JobState.WAITING] * 3
    assert left > 0
    assert took < 1.0


async def test_i1_what_was_acknowledged_survives_a_killed_redis(server: RedisServer, spool_dir: Path) -> None:
    settings = WorkerSettings.load(redis_url=server.url, spool_dir=spool_dir)
    handles: list[Enqueued] = []
    async with MemoryJobs(settings) as jobs:
        for number in range(60):
            if number == 20:
                server.kill()
            if number == 40:
                server.start()
            handles.append(await jobs.enqueue(build(str(number)), root=ROOT))
        progress = await jobs.progress(handles)

    assert progress.waiting == 60
    assert {handle.state for handle in handles} == {EnqueueState.NEW, EnqueueState.SPOOLED}
