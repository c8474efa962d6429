"""How fast jobs are handed over, run and drained, beside other queues on the same Redis, in one run.

    python -m benchmarks.jobs [--only enqueue,drain,sleepers,latency,coverage,million] [--png jobs.png]

Prints a table of ratios, a line for each target, and says which peers are missing.  Start it on a
quiet machine with `redis-server` on PATH; `--million 100000` makes the largest part smaller.
"""

import argparse
import asyncio
import contextlib
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import redis
from redis import Redis as SyncRedis

from benchmarks.job_peers import PEERS, celery_app, noop
from benchmarks.job_targets import JOB_SECONDS, NOTES
from tinymemory import BrainDocument, BuildBeliefs, ConsolidateRequest, IngestBrain, Reach
from workers import Enqueued, MemoryJobs, WorkerSettings
from workers.connection import async_redis, sync_redis
from workers.intake import Intake
from workers.ledger import Coverage, LedgerOptions, NewJob, SyncLedger
from workers.testing import RedisServer

ROUNDS = 3
ENQUEUE_ROUNDS = 9
"""Many short ones: what else the machine does then falls on everyone alike."""
ENQUEUES = 400
KEYS = 100
POOL = ("-P", "threads")


@dataclass(frozen=True, slots=True)
class Target:
    """One figure that has to be reached."""

    name: str
    found: float
    wanted: float
    at_least: bool = True

    @property
    def is_met(self) -> bool:
        """Whether it is."""
        return self.found >= self.wanted if self.at_least else self.found <= self.wanted


@dataclass(slots=True)
class Results:
    """What was measured."""

    rates: dict[str, float] = field(default_factory=dict[str, float])
    """Jobs a second, by who was measured."""
    targets: list[Target] = field(default_factory=list[Target])
    remarks: list[str] = field(default_factory=list[str])

    def target(self, name: str, found: float, wanted: float, *, at_least: bool = True) -> None:
        """Note a figure, and say it at once."""
        target = Target(name, found, wanted, at_least)
        self.targets.append(target)
        sign = ">=" if at_least else "<="
        print(f"  {'ok  ' if target.is_met else 'MISS'} {name}: {found:.2f} ({sign} {wanted:g})", flush=True)


@dataclass(frozen=True, slots=True)
class Bench:
    """The server, and a folder for what the parts need."""

    server: RedisServer
    folder: Path
    million: int

    def settings(self, **values: Any) -> WorkerSettings:
        """Settings on that server, for no-op jobs."""
        return WorkerSettings.load(
            redis_url=self.server.url, engine_factory="benchmarks.job_targets:engine", **values
        )

    def empty(self) -> None:
        """Start anew."""
        with SyncRedis(port=self.server.port) as client:
            client.flushall()  # pyright: ignore[reportUnknownMemberType]  # redis-py leaves **kwargs untyped


def build(number: int, root: str = "team:acme") -> BuildBeliefs:
    """The build of one agent."""
    return BuildBeliefs(request=ConsolidateRequest(reach=Reach.exact(f"{root}/agent:a{number}")))


# -- enqueue


async def enqueue(bench: Bench, results: Results) -> None:
    """Rates of handing over, everyone in turn, nine times; the median counts."""
    rates: dict[str, list[float]] = {}
    for _ in range(ENQUEUE_ROUNDS):
        async for name, rate in _enqueue_once(bench):
            rates.setdefault(name, []).append(rate)
    results.rates.update({name: median(found) for name, found in rates.items()})
    r = results.rates
    _table(r)
    each = min(r["ours, sync"], r["ours, await"])
    results.target("one enqueue / the bare script, sync", r["ours, sync"] / r["bare EVALSHA, sync"], 0.65)
    results.target(
        "one enqueue / the bare script, awaited", r["ours, await"] / r["bare EVALSHA, await"], 0.65
    )
    if "celery" in r:
        results.target("a batch of 100 / apply_async, per job", r["ours, batch of 100"] / r["celery"], 12)
    for peer in PEERS:
        if peer.dedups and peer.name in r:
            results.target(f"one enqueue / {peer.name}", each / r[peer.name], 1)


async def _enqueue_once(bench: Bench) -> AsyncIterator[tuple[str, float]]:
    jobs_ = [build(number) for number in range(KEYS)]
    settings = bench.settings()
    call = SyncLedger(sync_redis(bench.server.url)).calls.enqueue(
        Intake(settings).new_jobs(jobs_[0], root="team:acme")
    )
    words = ("EVALSHA", call.script.sha, 1, *call.args)

    bench.empty()
    with SyncRedis(port=bench.server.port, decode_responses=True) as client:
        execute: Callable[..., Any] = client.execute_command  # pyright: ignore[reportUnknownMemberType]  # untyped options
        execute("SCRIPT", "LOAD", call.script.text)
        yield "bare EVALSHA, sync", _rate(ENQUEUES, lambda n: execute(*words))
    with MemoryJobs(settings) as jobs:
        yield "ours, sync", _rate(ENQUEUES, lambda n: jobs.enqueue_sync(jobs_[n % KEYS], root="team:acme"))
    client = async_redis(bench.server.url)
    send: Callable[..., Awaitable[Any]] = client.execute_command  # pyright: ignore[reportUnknownMemberType]  # as above
    yield "bare EVALSHA, await", await _rate_awaited(ENQUEUES, lambda n: send(*words))
    yield "bare EVALSHA, 64 tasks", await _rate_awaited(ENQUEUES, lambda n: send(*words), tasks=64)
    await client.aclose()
    async with MemoryJobs(settings) as jobs:

        async def one(n: int) -> object:
            return await jobs.enqueue(jobs_[n % KEYS], root="team:acme")

        async def hundred(n: int) -> object:
            return await jobs.enqueue(jobs_, root="team:acme")

        yield "ours, await", await _rate_awaited(ENQUEUES, one)
        yield "ours, 64 tasks", await _rate_awaited(ENQUEUES, one, tasks=64)
        yield "ours, batch of 100", KEYS * await _rate_awaited(ENQUEUES // 10, hundred, warm=2)
    for peer in PEERS:
        if peer.version is None:
            continue
        bench.empty()
        if peer.sync is not None:
            with peer.sync(bench.server.url) as sync_send:
                yield peer.name, _rate(ENQUEUES, lambda n: sync_send(f"key-{n % KEYS}"))
        elif peer.awaited is not None:
            async with peer.awaited(bench.server.url) as send_:
                yield peer.name, await _rate_awaited(ENQUEUES, lambda n: send_(f"key-{n % KEYS}"))


def _rate(count: int, call: Callable[[int], object], *, warm: int = KEYS) -> float:
    for number in range(warm):
        call(number)
    started = time.perf_counter()
    for number in range(count):
        call(number)
    return count / (time.perf_counter() - started)


async def _rate_awaited(
    count: int, call: Callable[[int], Awaitable[object]], *, tasks: int = 1, warm: int = KEYS
) -> float:
    for number in range(warm):
        await call(number)
    numbers = iter(range(count))

    async def work() -> None:
        for number in numbers:
            await call(number)

    started = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(tasks)))
    return count / (time.perf_counter() - started)


# -- running


async def drain(bench: Bench, results: Results) -> None:
    """5,000 no-op jobs by one worker of eight threads, ours and plain Celery's."""
    ours: list[float] = []
    raw: list[float] = []
    for _ in range(ROUNDS):
        raw.append(_rate_of(await _run_raw(bench, 5000, concurrency=8)))
        ours.append(_rate_of(await _run_ours(bench, 5000, concurrency=8)))
    results.rates |= {"drain, ours": median(ours), "drain, celery": median(raw)}
    _table({name: rate for name, rate in results.rates.items() if name.startswith("drain")})
    results.target("drain of 5,000 / celery", median(ours) / median(raw), 0.8)


async def sleepers(bench: Bench, results: Results) -> None:
    """500 jobs of 50 ms, 32 at a time."""
    found: list[float] = []
    for _ in range(ROUNDS):
        notes = await _run_ours(bench, 500, concurrency=32, job_seconds=0.05)
        found.append(max(end for _, end in notes) - min(began for began, _ in notes))
    ideal = 500 * 0.05 / 32
    results.target("500 jobs of 50 ms at 32 / ideal", median(found) / ideal, 1.15, at_least=False)


async def latency(bench: Bench, results: Results) -> None:
    """From handing over an immediate ingest to its first line, on an idle worker."""
    raw = await _latencies_raw(bench, 100)
    ours = await _latencies_ours(bench, 100)
    p95 = {name: quantiles(found, n=20)[-1] for name, found in (("ours", ours), ("celery", raw))}
    print(f"  p95 to the first line: ours {p95['ours'] * 1000:.1f} ms, celery {p95['celery'] * 1000:.1f} ms")
    results.target("p95 to the first line / celery", p95["ours"] / p95["celery"], 1.5, at_least=False)


async def coverage(bench: Bench, results: Results) -> None:
    """10,000 enqueues over 100 keys with a worker running: the last one of each key is served."""
    bench.empty()
    settings = bench.settings(build_delay=1.0, build_max_wait=5.0, sweep_interval=0.2)
    async with _worker(bench, settings, concurrency=8) as sweep, MemoryJobs(settings) as jobs:
        sweeping = asyncio.create_task(_sweep_often(sweep))
        last: dict[str, Enqueued] = {}
        for number in range(10_000):
            root = f"team:t{number % 10}"
            handle = await jobs.enqueue(build(number % 100, root), root=root)
            last[handle.key] = handle
        statuses = [await jobs.wait(handle, timeout=120) for handle in last.values()]
        sweeping.cancel()
    runs = len(_read_notes(bench))
    served = sum(status.state == "done" for status in statuses)
    results.target("keys whose last enqueue was served, of 100", served, 100)
    results.target("runs / keys", runs / len(last), 8, at_least=False)


async def million(bench: Bench, results: Results) -> None:
    """Enqueue and claim with a long backlog, against a short one; and what a waiting job weighs."""
    bench.empty()
    with SyncRedis(port=bench.server.port, decode_responses=True) as client:
        ledger = SyncLedger(client, LedgerOptions(max_in_flight=10**9))
        _fill(ledger, 0, 1000)
        few = _ledger_rates(ledger)
        bench.empty()
        before = _memory(client)
        _fill(ledger, 0, bench.million)
        per_job = (_memory(client) - before) / bench.million
        many = _ledger_rates(ledger)
    print(f"  at 1,000 waiting: {few}; at {bench.million:,}: {many}; {per_job:.0f} bytes a job")
    for name in ("enqueue", "claim"):
        results.target(f"{name} at 1,000 / at {bench.million:,}", few[name] / many[name], 1.5, at_least=False)
    results.target("bytes of Redis a waiting job", per_job, 1024, at_least=False)
    bench.empty()


def _fill(ledger: SyncLedger, first: int, count: int) -> None:
    roots = max(count // 100, 10)
    for start in range(first, first + count, 500):
        ledger.enqueue([_new_job(number, roots) for number in range(start, min(start + 500, first + count))])


def _new_job(number: int, roots: int) -> NewJob:
    root = f"team:t{number % roots}"
    at = f"{root}/agent:a{number}"
    return NewJob(
        key=f"build:{root}:{number:020x}",
        queue="tinymemory.beliefs",
        profile="default",
        scope=f"{at} [conversation]",
        envelope=f'{{"v":1,"root":"{root}","profile":"default","job":{{"job":"build_beliefs","request":'
        f'{{"reach":{{"at":"{at}","inherit":false,"descendants":false}},"kinds":["conversation"]}}}}}}',
        coverage=Coverage(at, inherit=False, descendants=False, kinds=("conversation",)),
    )


def _ledger_rates(ledger: SyncLedger) -> dict[str, float]:
    def enqueue_one(number: int) -> object:
        return ledger.enqueue([_new_job(10**9 + number, 10)])

    def claim_ten(number: int) -> object:
        claimed = ledger.claim("tinymemory.beliefs", 10)
        return ledger.give_back([doorbell.lease for doorbell in claimed.doorbells])

    return {"enqueue": _rate(1000, enqueue_one), "claim": _rate(300, claim_ten)}


def _memory(client: Any) -> int:
    return int(client.info("memory")["used_memory"])


# -- workers


@asynccontextmanager
async def _worker(
    bench: Bench, settings: WorkerSettings, *, concurrency: int, job_seconds: float = 0.0
) -> AsyncIterator[Callable[[], Awaitable[object]]]:
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


async def _run_ours(
    bench: Bench, count: int, *, concurrency: int, job_seconds: float = 0.0
) -> list[tuple[float, float]]:
    bench.empty()
    settings = bench.settings(build_delay=0.0)
    async with MemoryJobs(settings) as jobs:
        for root in (f"team:t{number}" for number in range(50)):
            await jobs.enqueue([build(number, root) for number in range(count // 50)], root=root, delay=0)
    async with _worker(bench, settings, concurrency=concurrency, job_seconds=job_seconds) as sweep:
        await sweep()
        sweeping = asyncio.create_task(_sweep_often(sweep, every=1.0))
        await _until_noted(bench, count)
        sweeping.cancel()
    return _read_notes(bench)


async def _run_raw(bench: Bench, count: int, *, concurrency: int) -> list[tuple[float, float]]:
    bench.empty()
    task = celery_app(bench.server.url).task(name="peer.noop")(noop)
    for number in range(count):
        task.apply_async((str(number),))
    with _raw_worker(bench, concurrency):
        await _until_noted(bench, count)
    return _read_notes(bench)


async def _latencies_raw(bench: Bench, count: int) -> list[float]:
    bench.empty()
    task = celery_app(bench.server.url).task(name="peer.noop")(noop)
    with _raw_worker(bench, 8) as worker:
        await _until_ready(bench, worker)
        return await _latencies(bench, count, lambda n: task.apply_async((str(n),)))


async def _latencies_ours(bench: Bench, count: int) -> list[float]:
    bench.empty()
    settings = bench.settings()
    with MemoryJobs(settings) as jobs:

        def send(number: int) -> object:
            document = BrainDocument.model_validate({"source": "pdf", "text": f"page {number}"})
            return jobs.enqueue_sync(IngestBrain(documents=(document,)), root="team:acme")

        async with _worker(bench, settings, concurrency=8):
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
        found.append(_read_notes(bench)[-1][0] - started)
        await asyncio.sleep(0.02)
    return found


@contextmanager
def _raw_worker(bench: Bench, concurrency: int) -> Iterator[subprocess.Popen[bytes]]:
    _clear_notes(bench)
    words = ["celery", "-A", "benchmarks.job_targets:raw", "worker", *POOL, "-c", str(concurrency)]
    with _process(bench, [*words, "-Q", "peer", "-l", "INFO"], _environment(bench, 0.0)) as process:
        yield process


@contextmanager
def _process(
    bench: Bench, words: Iterable[str], environment: dict[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
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
        "PYTHONPATH": str(Path(__file__).parents[1]),
    }


async def _sweep_often(sweep: Callable[[], Awaitable[object]], every: float = 0.2) -> None:
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


def _read_notes(bench: Bench) -> list[tuple[float, float]]:
    lines = (bench.folder / "notes").read_text().splitlines()
    return [(float(began), float(ended)) for began, _, ended in (line.partition(" ") for line in lines)]


def _rate_of(notes: list[tuple[float, float]]) -> float:
    """Jobs a second between the first tenth and the last: starting up and running out are no drain."""
    ended = sorted(end for _, end in notes)
    first, last = len(ended) // 10, len(ended) * 9 // 10
    return (last - first) / (ended[last] - ended[first])


# -- the report

PARTS = {part.__name__: part for part in (enqueue, drain, sleepers, latency, coverage, million)}


def _table(rates: dict[str, float]) -> None:
    unit = rates.get("celery") or rates.get("drain, celery") or 1.0
    for name, rate in sorted(rates.items(), key=lambda item: -item[1]):
        print(f"  {name:<26} {rate:>10,.0f}/s  {rate / unit:>6.2f}", flush=True)


def chart(results: Results, path: Path) -> None:
    """The rates of handing over, as a PNG."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    rates = {name: rate for name, rate in results.rates.items() if not name.startswith("drain")}
    unit = rates.get("celery", 1.0)
    names = sorted(rates, key=lambda name: rates[name])
    colours = ["#1f77b4" if "ours" in name else "#999999" if "bare" in name else "#d9a441" for name in names]
    figure, axes = plt.subplots(figsize=(9, 0.4 * len(names) + 1))
    bars = axes.barh(names, [rates[name] / unit for name in names], color=colours)
    axes.bar_label(bars, fmt="%.1f", padding=3)
    axes.set_xlabel("jobs handed over, in units of one celery apply_async")
    axes.set_xscale("log")
    figure.tight_layout()
    figure.savefig(path, dpi=130)


def describe() -> str:
    """The machine and the versions."""
    with open("/proc/cpuinfo") as file:
        model = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), "?")
    found = [f"{peer.name} {peer.version}" for peer in PEERS if peer.version]
    missing = [peer.name for peer in PEERS if not peer.version]
    load = os.getloadavg()[0]
    return (
        f"{model}, {os.cpu_count()} cores, load {load:.1f}, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}, redis-py {redis.__version__}\n{', '.join(found)}"
        + (f"\nnot installed, and left out: {', '.join(missing)}" if missing else "")
    )


def main() -> int:
    """Run the parts; 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--png", type=Path)
    parser.add_argument("--million", type=int, default=1_000_000)
    given = parser.parse_args()
    results = Results()
    print(describe(), flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with RedisServer(folder / "redis", "--appendfsync", "everysec") as server:
            bench = Bench(server, folder, given.million)
            with SyncRedis(port=server.port) as client:
                info: Any = client.info("server")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # untyped
                print(f"Redis {info['redis_version']}, append-only, fsync every second", flush=True)
            for part in given.only.split(","):
                print(f"\n{part}: {(PARTS[part].__doc__ or '').splitlines()[0]}", flush=True)
                asyncio.run(PARTS[part](bench, results))
    if given.png:
        chart(results, given.png)
    missed = [target for target in results.targets if not target.is_met]
    print(f"\n{len(results.targets) - len(missed)} of {len(results.targets)} targets met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
