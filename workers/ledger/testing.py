"""A ledger for tests, whose time stands still until it is moved, and jobs for it."""

from typing import Self

from redis.asyncio import Redis

from workers.ledger.jobs import Coverage, Lease, NewJob, Run
from workers.ledger.ledger import Ledger
from workers.ledger.options import LedgerOptions
from workers.ledger.transitions import Transitions

START_MS = 1_800_000_000_000
BELIEFS, INGEST = "tinymemory.beliefs", "tinymemory.ingest"


class MovableClock:
    """What the scripts of `still_ledger` take for Redis's time.

    Those scripts read it from a key in the place of `TIME`; the production scripts are other texts
    with other hashes and know no such key.
    """

    def __init__(self, client: Redis, key_prefix: str = LedgerOptions().key_prefix) -> None:
        self._client = client
        self._key = f"{key_prefix}test:now"
        self.now_ms = START_MS

    async def start(self) -> Self:
        """Set it for the first time."""
        await self._client.set(self._key, self.now_ms)
        return self

    async def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now_ms += round(seconds * 1000)
        await self._client.set(self._key, self.now_ms)


def still_ledger(client: Redis, options: LedgerOptions | None = None) -> Ledger:
    """A ledger that goes by a `MovableClock` on the same server."""
    return Ledger(client, calls=Transitions(options or LedgerOptions(), clock="test_clock"))


def a_build(
    n: int = 1,
    root: str = "team:a",
    *,
    delay: float = 0.0,
    profile: str = "default",
    coverage: Coverage | None = None,
) -> NewJob:
    """The build of one agent's conversations, or of what `coverage` says."""
    coverage = coverage or Coverage(
        f"{root}/agent:a{n}", inherit=False, descendants=False, kinds=("conversation",)
    )
    return NewJob(
        key=f"build:{root}:{n:020x}",
        queue=BELIEFS,
        profile=profile,
        scope=f"{coverage.at} [conversation]",
        envelope=f'{{"n":{n}}}',
        delay=delay,
        coverage=coverage,
    )


def an_ingest(n: int = 1, root: str = "team:a", *, profile: str = "default", batch: str = "") -> NewJob:
    """The ingest of one document."""
    return NewJob(
        key=f"ingest:{root}:{n:020x}",
        queue=INGEST,
        profile=profile,
        scope="source:pdf",
        envelope=f'{{"n":{n}}}',
        batch=batch,
    )


async def claim_one(ledger: Ledger, job: NewJob) -> Lease:
    """Enqueue a job and claim it; nothing else of its queue may be due."""
    await ledger.enqueue([job])
    [doorbell] = (await ledger.claim(job.queue)).doorbells
    return doorbell.lease


async def begin_one(ledger: Ledger, job: NewJob, *, worker: str = "worker-1") -> Run:
    """Enqueue, claim and begin a job; nothing else of its queue may be due."""
    run = await ledger.begin(await claim_one(ledger, job), worker=worker)
    assert run is not None
    return run
