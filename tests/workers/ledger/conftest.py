"""A ledger whose clock stands still, and the jobs its tests are about."""

from collections.abc import AsyncIterator, Callable
from typing import Protocol

import pytest
from redis.asyncio import Redis

from workers.ledger import Coverage, Lease, Ledger, LedgerOptions, NewJob, Run
from workers.ledger.testing import MovableClock, still_ledger

BELIEFS, INGEST = "tinymemory.beliefs", "tinymemory.ingest"


class MakeBuild(Protocol):
    """`build(1, "team:a")`: the build of one agent of a root, due after `delay` seconds."""

    def __call__(
        self,
        n: int = 1,
        root: str = "team:a",
        *,
        delay: float = 0.0,
        profile: str = "default",
        coverage: Coverage | None = None,
    ) -> NewJob: ...


class MakeIngest(Protocol):
    """`ingest(1, "team:a")`: the ingest of one document of a root."""

    def __call__(
        self, n: int = 1, root: str = "team:a", *, batch: str = "", profile: str = "default"
    ) -> NewJob: ...


class BeginOne(Protocol):
    """Enqueue, claim and begin one job."""

    async def __call__(self, job: NewJob) -> Run: ...


@pytest.fixture
def build() -> MakeBuild:
    def make(
        n: int = 1,
        root: str = "team:a",
        *,
        delay: float = 0.0,
        profile: str = "default",
        coverage: Coverage | None = None,
    ) -> NewJob:
        at = coverage.at if coverage else f"{root}/agent:a{n}"
        return NewJob(
            key=f"build:{root}:{n:020x}",
            queue=BELIEFS,
            profile=profile,
            scope=f"{at} [conversation]",
            envelope=f'{{"n":{n}}}',
            delay=delay,
            coverage=coverage or Coverage(at, inherit=False, descendants=False, kinds=("conversation",)),
        )

    return make


@pytest.fixture
def ingest() -> MakeIngest:
    def make(n: int = 1, root: str = "team:a", *, batch: str = "", profile: str = "default") -> NewJob:
        return NewJob(
            key=f"ingest:{root}:{n:020x}",
            queue=INGEST,
            profile=profile,
            scope="source:pdf",
            envelope=f'{{"n":{n}}}',
            batch=batch,
        )

    return make


@pytest.fixture
async def clock(redis: Redis) -> MovableClock:
    return await MovableClock(redis).start()


@pytest.fixture
def ledger_with(redis: Redis, clock: MovableClock) -> Callable[[LedgerOptions], Ledger]:
    def make(options: LedgerOptions) -> Ledger:
        return still_ledger(redis, options)

    return make


@pytest.fixture
async def ledger(redis: Redis, clock: MovableClock, known_keys: Callable[[str], bool]) -> AsyncIterator[Ledger]:
    ledger = still_ledger(redis)
    yield ledger
    async for key in redis.scan_iter("*"):  # pyright: ignore[reportUnknownMemberType]  # redis-py leaves **kwargs untyped
        assert await redis.ttl(key) > 0 or known_keys(key), f"nobody ends {key}"


@pytest.fixture
def known_keys() -> Callable[[str], bool]:
    """The keys without an expiry, as the package's table of keys lists them."""
    plain = (
        "counter counts totals history dead queues roots active resting breakers trials parkings test:now"
    ).split()
    kinds = (
        "job text due parked heads asleep ring capped express queued running held lanes wide breaker"
    ).split()

    def is_known(key: str) -> bool:
        name = key.removeprefix("{tinymemory}:")
        return name in plain or name.partition(":")[0] in kinds

    return is_known


@pytest.fixture
def begin_one(ledger: Ledger) -> BeginOne:
    async def begin(job: NewJob) -> Run:
        await ledger.enqueue([job])
        doorbell = (await ledger.claim(job.queue)).doorbells[-1]
        assert doorbell.lease.key == job.key
        run = await ledger.begin(doorbell.lease, worker="worker-1")
        assert run is not None
        return run

    return begin


@pytest.fixture
def claim_one(ledger: Ledger) -> Callable[[NewJob], "object"]:
    async def claim(job: NewJob) -> Lease:
        await ledger.enqueue([job])
        return (await ledger.claim(job.queue)).doorbells[-1].lease

    return claim
