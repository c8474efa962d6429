"""Running: how fast jobs are drained, kept at once, begun, and merged while a worker runs them."""

import asyncio
from statistics import median, quantiles

from benchmarks.jobs.bench import Bench, Results, build, table
from benchmarks.jobs.workers import (
    latencies_ours,
    latencies_raw,
    rate_of,
    read_notes,
    run_ours,
    run_raw,
    sweep_often,
    worker,
)
from workers import Enqueued, MemoryJobs

ROUNDS = 3


async def drain(bench: Bench, results: Results) -> None:
    """5,000 no-op jobs by one worker of eight threads, ours and plain Celery's."""
    ours: list[float] = []
    raw: list[float] = []
    for _ in range(ROUNDS):
        raw.append(rate_of(await run_raw(bench, 5000, concurrency=8)))
        ours.append(rate_of(await run_ours(bench, 5000, concurrency=8)))
    results.rates |= {"drain, ours": median(ours), "drain, celery": median(raw)}
    table({name: rate for name, rate in results.rates.items() if name.startswith("drain")})
    results.target("drain of 5,000 / celery", median(ours) / median(raw), 0.8)


async def sleepers(bench: Bench, results: Results) -> None:
    """500 jobs of 50 ms, 32 at a time."""
    found: list[float] = []
    for _ in range(ROUNDS):
        notes = await run_ours(bench, 500, concurrency=32, job_seconds=0.05)
        found.append(max(end for _, end in notes) - min(began for began, _ in notes))
    ideal = 500 * 0.05 / 32
    results.target("500 jobs of 50 ms at 32 / ideal", median(found) / ideal, 1.15, at_least=False)


async def latency(bench: Bench, results: Results) -> None:
    """From handing over an immediate ingest to its first line, on an idle worker."""
    raw = await latencies_raw(bench, 100)
    ours = await latencies_ours(bench, 100)
    p95 = {name: quantiles(found, n=20)[-1] for name, found in (("ours", ours), ("celery", raw))}
    print(f"  p95 to the first line: ours {p95['ours'] * 1000:.1f} ms, celery {p95['celery'] * 1000:.1f} ms")
    results.target("p95 to the first line / celery", p95["ours"] / p95["celery"], 1.5, at_least=False)


async def coverage(bench: Bench, results: Results) -> None:
    """10,000 enqueues over 100 keys with a worker running: the last one of each key is served."""
    bench.empty()
    settings = bench.settings(build_delay=1.0, build_max_wait=5.0, sweep_interval=0.2)
    async with worker(bench, settings, concurrency=8) as sweep, MemoryJobs(settings) as jobs:
        sweeping = asyncio.create_task(sweep_often(sweep))
        last: dict[str, Enqueued] = {}
        for number in range(10_000):
            root = f"team:t{number % 10}"
            handle = await jobs.enqueue(build(number % 100, root), root=root)
            last[handle.key] = handle
        statuses = [await jobs.wait(handle, timeout=120) for handle in last.values()]
        sweeping.cancel()
    runs = len(read_notes(bench))
    served = sum(status.state == "done" for status in statuses)
    results.target("keys whose last enqueue was served, of 100", served, 100)
    results.target("runs / keys", runs / len(last), 1.5, at_least=False)
