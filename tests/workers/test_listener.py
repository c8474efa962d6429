"""A worker's ear: what is due at once is claimed at once, and nothing else is."""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from redis import Redis

from tinymemory.brain_input import BrainDocument
from tinymemory.jobs import BuildBeliefs, IngestBrain
from tinymemory.namespace import Reach
from tinymemory.query import ConsolidateRequest
from workers import JobState, MemoryJobs, WorkerSettings
from workers.ledger import Doorbell, Lease, SyncLedger
from workers.listener import Listener
from workers.testing import RedisServer

ROOT = "team:acme"
QUEUES = ("tinymemory.beliefs", "tinymemory.ingest")


class NotingBell:
    """Notes what it rings; `broken`, it rings nothing."""

    def __init__(self, *, broken: bool = False) -> None:
        self.rung: list[str] = []
        self.broken = broken

    def ring(self, doorbells: Sequence[Doorbell]) -> list[Lease]:
        self.rung += [doorbell.lease.key for doorbell in doorbells]
        return [doorbell.lease for doorbell in doorbells] if self.broken else []

    def depth(self, queue: str) -> int | None:
        return 0


def build(agent: str) -> BuildBeliefs:
    return BuildBeliefs(request=ConsolidateRequest(reach=Reach.exact(f"{ROOT}/agent:{agent}")))


def ingest(text: str) -> IngestBrain:
    return IngestBrain(documents=(BrainDocument.model_validate({"source": "pdf", "text": text}),))


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path / "redis") as server:
        yield server


@pytest.fixture
def settings(server: RedisServer) -> WorkerSettings:
    return WorkerSettings.load(redis_url=server.url)


def listening(server: RedisServer) -> bool:
    with Redis(port=server.port) as client:
        return bool(client.pubsub_channels())  # pyright: ignore[reportUnknownMemberType]  # redis-py leaves **kwargs untyped


def test_what_is_due_at_once_is_rung_at_once_and_a_delayed_build_is_not(
    server: RedisServer, settings: WorkerSettings
) -> None:
    bell = NotingBell()
    listener = Listener(settings, bell, lambda: QUEUES)
    listener.start()
    wait_until(lambda: listening(server))
    with MemoryJobs(settings) as jobs:
        jobs.enqueue_sync(build("later"), root=ROOT)
        now = jobs.enqueue_sync([ingest("a"), build("now")], root=ROOT, delay=0)
        wait_until(lambda: len(bell.rung) == 2)
        jobs.enqueue_sync(build("later"), root=ROOT)
    listener.end()

    assert sorted(bell.rung) == sorted(handle.key for handle in now)


def test_what_came_due_while_nobody_listened_is_rung_at_the_start(settings: WorkerSettings) -> None:
    bell = NotingBell()
    with MemoryJobs(settings) as jobs:
        handle = jobs.enqueue_sync(build("a"), root=ROOT, delay=0)
    listener = Listener(settings, bell, lambda: QUEUES)

    listener.start()
    wait_until(lambda: bell.rung == [handle.key])
    listener.end()


def test_a_worker_claims_for_its_own_queues_alone(server: RedisServer, settings: WorkerSettings) -> None:
    bell = NotingBell()
    listener = Listener(settings, bell, lambda: ("tinymemory.beliefs",))
    listener.start()
    wait_until(lambda: listening(server))
    with MemoryJobs(settings) as jobs:
        [other, ours] = jobs.enqueue_sync([ingest("a"), build("a")], root=ROOT, delay=0)
        wait_until(lambda: bool(bell.rung))
        state = jobs.status_sync(other).state
    listener.end()

    assert bell.rung == [ours.key]
    assert state is JobState.WAITING


def test_what_cannot_be_rung_goes_back(server: RedisServer, settings: WorkerSettings) -> None:
    bell = NotingBell(broken=True)
    listener = Listener(settings, bell, lambda: QUEUES)
    listener.start()
    wait_until(lambda: listening(server))
    with MemoryJobs(settings) as jobs, Redis(port=server.port, decode_responses=True) as client:
        handle = jobs.enqueue_sync(build("a"), root=ROOT, delay=0)
        wait_until(lambda: bool(bell.rung))
        wait_until(lambda: SyncLedger(client).status(handle.key).state is JobState.WAITING)
    listener.end()


def test_a_listener_hears_again_when_redis_is_back(server: RedisServer, settings: WorkerSettings) -> None:
    bell = NotingBell()
    listener = Listener(settings, bell, lambda: QUEUES)
    listener.start()
    wait_until(lambda: listening(server))

    server.kill()
    server.start()
    wait_until(lambda: listening(server))
    with MemoryJobs(settings) as jobs:
        handle = jobs.enqueue_sync(build("a"), root=ROOT, delay=0)
        wait_until(lambda: bell.rung == [handle.key])
    listener.end()


def test_what_could_not_be_passed_on_as_it_ends_waits_again(
    server: RedisServer, settings: WorkerSettings
) -> None:
    bell, left = NotingBell(), list[Lease]()
    with MemoryJobs(settings) as jobs, Redis(port=server.port, decode_responses=True) as client:
        handle = jobs.enqueue_sync(build("a"), root=ROOT, delay=0)
        [doorbell] = SyncLedger(client).claim("tinymemory.beliefs").doorbells
        listener = Listener(settings, bell, lambda: QUEUES, lambda: left)
        listener.start()
        wait_until(lambda: listening(server))
        left.append(doorbell.lease)
        listener.end()

        assert SyncLedger(client).status(handle.key).state is JobState.WAITING
