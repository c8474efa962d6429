"""Worker processes of ours and of plain Celery, and when their jobs began and ended."""

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from benchmarks.jobs.bench import Bench, build
from benchmarks.jobs.peers import celery_app, noop
from benchmarks.jobs.targets import JOB_SECONDS, NOTES
from tinymemory import BrainDocument, IngestBrain
from workers import MemoryJobs, WorkerSettings

POOL = ("-P", "threads")


@asynccontextmanager
async def worker(
    bench: Bench, settings: WorkerSettings, *, concurrency: int, job_seconds: float = 0.0
) -> AsyncGenerator[Callable[[], Awaitable[object]]]:
    """One worker of ours, ready; yields what sweeps once."""
    from workers.solo_round import open_round

    _clear_notes(bench)
    environment = _environment(bench, job_seconds) | {
        f"TINYMEMORY_{name.upper()}": str(getattr(settings, name)) for name in settings.model_fields_set
    }
    with _process(bench, ["tinymemory", "worker", *POOL, "-c", str(concurrency)], environment) as worker:
        os.environ.update({key: value for key, value in environment.items() if key.startswith("TINYMEMORY_")})
        await _until_ready(bench, worker)
        async with open_round(settings) as round_:
            yield round_.sweep


async def run_ours(
    bench: Bench, count: int, *, concurrency: int, job_seconds: float = 0.0
) -> list[tuple[float, float]]:
    """When each of `count` jobs began and ended that waited for a worker of ours."""
    bench.empty()
    settings = bench.settings(build_delay=0.0)
    async with MemoryJobs(settings) as jobs:
        for root in (f"team:t{number}" for number in range(50)):
            await jobs.enqueue([build(number, root) for number in range(count // 50)], root=root, delay=0)
    async with worker(bench, settings, concurrency=concurrency, job_seconds=job_seconds) as sweep:
        await sweep()
        sweeping = asyncio.create_task(sweep_often(sweep, every=1.0))
        await _until_noted(bench, count)
        sweeping.cancel()
    return read_notes(bench)


async def run_raw(bench: Bench, count: int, *, concurrency: int) -> list[tuple[float, float]]:
    """The same of plain Celery's."""
    bench.empty()
    task = celery_app(bench.server.url).task(name="peer.noop")(noop)
    for number in range(count):
        task.apply_async((str(number),))
    with _raw_worker(bench, concurrency):
        await _until_noted(bench, count)
    return read_notes(bench)


async def latencies_raw(bench: Bench, count: int) -> list[float]:
    """Seconds from handing over to the first line, one job after the other, of plain Celery."""
    bench.empty()
    task = celery_app(bench.server.url).task(name="peer.noop")(noop)
    with _raw_worker(bench, 8) as worker:
        await _until_ready(bench, worker)
        return await _latencies(bench, count, lambda n: task.apply_async((str(n),)))


async def latencies_ours(bench: Bench, count: int) -> list[float]:
    """The same of an ingest of ours."""
    bench.empty()
    settings = bench.settings()
    with MemoryJobs(settings) as jobs:

        def send(number: int) -> object:
            document = BrainDocument.model_validate({"source": "pdf", "text": f"page {number}"})
            return jobs.enqueue_sync(IngestBrain(documents=(document,)), root="team:acme")

        async with worker(bench, settings, concurrency=8):
            return await _latencies(bench, count, send)


async def _latencies(bench: Bench, count: int, send: Callable[[int], object]) -> list[float]:
    found: list[float] = []
    for number in range(count):
        started = time.monotonic()
        send(number)
        try:
            await _until_noted(bench, number + 1, seconds=10)
        except TimeoutError:
            return [*found, *[10.0] * (count - number)]
        found.append(read_notes(bench)[-1][0] - started)
        await asyncio.sleep(0.02)
    return found


@contextmanager
def _raw_worker(bench: Bench, concurrency: int) -> Generator[subprocess.Popen[bytes]]:
    _clear_notes(bench)
    words = ["celery", "-A", "benchmarks.jobs.targets:raw", "worker", *POOL, "-c", str(concurrency)]
    with _process(bench, [*words, "-Q", "peer", "-l", "INFO"], _environment(bench, 0.0)) as process:
        yield process


@contextmanager
def _process(
    bench: Bench, words: Iterable[str], environment: dict[str, str]
) -> Generator[subprocess.Popen[bytes]]:
    with (bench.folder / "worker.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *words], env=os.environ | environment, stdout=log, stderr=log
        )
    try:
        yield process
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        process.kill()
        process.wait()


async def _until_ready(bench: Bench, process: subprocess.Popen[bytes]) -> None:
    log = bench.folder / "worker.log"
    async with asyncio.timeout(60):
        while " ready" not in (said := log.read_text()):
            if process.poll() is not None:
                raise RuntimeError(f"the worker ended: {said[-2000:]}")
            await asyncio.sleep(0.05)


def _environment(bench: Bench, job_seconds: float) -> dict[str, str]:
    return {
        "TINYMEMORY_REDIS_URL": bench.server.url,
        NOTES: str(bench.folder / "notes"),
        JOB_SECONDS: str(job_seconds),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }


async def sweep_often(sweep: Callable[[], Awaitable[object]], every: float = 0.2) -> None:
    """Sweep until cancelled."""
    while True:
        await asyncio.sleep(every)
        await sweep()


def _clear_notes(bench: Bench) -> None:
    (bench.folder / "notes").write_bytes(b"")


async def _until_noted(bench: Bench, count: int, *, seconds: float = 300) -> None:
    path = bench.folder / "notes"
    async with asyncio.timeout(seconds):
        while path.read_bytes().count(b"\n") < count:  # noqa: ASYNC110  # a file has no event
            await asyncio.sleep(0.002 if seconds < 60 else 0.05)


def read_notes(bench: Bench) -> list[tuple[float, float]]:
    """When each job noted so far began and ended."""
    lines = (bench.folder / "notes").read_text().splitlines()
    return [(float(began), float(ended)) for began, _, ended in (line.partition(" ") for line in lines)]


def rate_of(notes: list[tuple[float, float]]) -> float:
    """Jobs a second between the first tenth and the last: starting up and running out are no drain."""
    ended = sorted(end for _, end in notes)
    first, last = len(ended) // 10, len(ended) * 9 // 10
    return (last - first) / (ended[last] - ended[first])
