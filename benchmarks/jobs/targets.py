"""What the benchmark's workers run: jobs that do nothing, or wait, and note when they did.

Times are of the machine's monotonic clock, which all processes share, a line each in `NOTES`.
"""

import asyncio
import os
import time
from collections.abc import Sequence

from tinymemory import (
    ConsolidateReceipt,
    ConsolidateRequest,
    ConsolidateStatus,
    MemoryEngine,
    Namespace,
    ReferenceEngine,
    StoreItem,
    StoreReceipt,
)

NOTES = "TINYMEMORY_BENCHMARK_NOTES"
JOB_SECONDS = "TINYMEMORY_BENCHMARK_JOB_SECONDS"


def note(began: float) -> None:
    """Append when a job began and when it ended."""
    # One write a line, to a file opened for appending: lines of several processes do not mix.
    with open(os.environ[NOTES], "ab", buffering=0) as file:
        file.write(f"{began} {time.monotonic()}\n".encode())


class NotingEngine(ReferenceEngine):
    """Builds and stores nothing, in `JOB_SECONDS`."""

    async def consolidate(self, request: ConsolidateRequest) -> ConsolidateReceipt:
        """Wait, and note it."""
        began = time.monotonic()
        await self._work()
        note(began)
        return ConsolidateReceipt(status=ConsolidateStatus.COMPLETED)

    async def store_many(self, items: Sequence[StoreItem]) -> list[StoreReceipt]:
        """The same."""
        began = time.monotonic()
        await self._work()
        note(began)
        return [StoreReceipt(id=item.fingerprint(), replayed=True) for item in items]

    async def _work(self) -> None:
        if seconds := float(os.environ.get(JOB_SECONDS, 0)):
            await asyncio.sleep(seconds)


def engine(root: Namespace, profile: str) -> MemoryEngine:
    """The benchmark's `engine_factory`."""
    return NotingEngine()


def raw_app() -> object:
    """The same job in plain Celery, on the broker in the environment."""
    from benchmarks.jobs.peers import celery_app

    app = celery_app(os.environ["TINYMEMORY_REDIS_URL"])

    @app.task(name="peer.noop")
    def noop(key: str) -> None:
        began = time.monotonic()
        if seconds := float(os.environ.get(JOB_SECONDS, 0)):
            time.sleep(seconds)
        note(began)

    return app


if NOTES in os.environ:
    raw = raw_app()
