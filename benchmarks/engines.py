"""What the CortexDB engine adds to its requests, beside a bare httpx client that sends the same ones.

    python benchmarks/engines.py [--turns 10000] [--calls 200] [--recall-delay 0.05]

The server is a loopback one in a process of its own.  Recalls are held for `--recall-delay` seconds, as
a server that has the question embedded would hold them: reading at once differs from reading in turn.
Exits 1 when a target is missed.  On a busy machine requests queue for the processor, and what is compared
is the machine: the load beside the versions says whether to believe the times.
"""

import argparse
import asyncio
import os
import platform
import subprocess
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import httpx

from tinymemory import (
    AgentMemory,
    BrainDocument,
    CortexEngine,
    Learning,
    LearningKind,
    MemoryLayout,
    MemoryMeta,
    Namespace,
)
from tinymemory.testing import cortex_server

KEY = "benchmark"
START = datetime(2026, 1, 1, tzinfo=UTC)
LAYOUT = MemoryLayout(Namespace.parse("team:bench"))
WRITERS = MemoryLayout(Namespace.parse("team:writers"))
"""Whose turns no measured read comes upon."""
Call = Callable[[int], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Result:
    """One line of the table: what was measured, against what."""

    name: str
    measured: str
    target: str
    met: bool


def sentence(number: int) -> str:
    """A turn of usual length, different for each number."""
    return (
        f"Turn {number}: the parcel with the oven gloves went to the wrong kitchen, so refund order {number}."
    )


@contextmanager
def server_process(recall_delay: float) -> Generator[str]:
    """A loopback server of its own, at the URL given."""
    command = [sys.executable, "-m", "tinymemory.testing", "--port", "0"]
    process = subprocess.Popen([*command, "--knob", f"recall_delay={recall_delay}"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield next(word.rstrip(",") for word in process.stdout.readline().decode().split() if "://" in word)
    finally:
        process.terminate()
        process.wait()


async def timed(calls: dict[str, Call], rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each call, taken in turn so that what else the machine does hits all alike."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds):
        for name, call in calls.items():
            started = perf_counter()
            await call(number)
            times[name].append((perf_counter() - started) * 1000)
    return times


async def recorded(wanted: str, do: Callable[[AgentMemory], Awaitable[object]]) -> list[dict[str, Any]]:
    """The bodies an agent's call sends, as `seen` keeps them under `wanted`."""
    async with cortex_server() as server, CortexEngine.direct(server.url, KEY) as engine:
        memory = AgentMemory(engine, LAYOUT, "support-01")
        await seed(memory)
        server.knobs.recall_delay = 0.05  # long enough for those who ask the same to share a request
        server.seen.clear()
        await do(memory)
        return list(getattr(server.seen, wanted))


async def seed(memory: AgentMemory) -> None:
    """One document, one learning and a few turns: four scopes to read, with another agent's."""
    engine = memory.engine
    await memory.brain().ingest(BrainDocument(source="notion", text="Refund orders within five days."))
    shared = MemoryMeta(namespace=LAYOUT.root)
    learning = Learning(
        text="writes short answers", kind=LearningKind.PREFERENCE, confidence=0.9, meta=shared
    )
    await engine.store(learning)
    for agent in ("support-01", "ops-02"):
        await AgentMemory(engine, LAYOUT, agent).post_turn("seed", 0, sentence(0), at=START)


async def post_turn(url: str, rounds: int) -> Result:
    """One logged turn against one bare append of the same body."""
    [body] = await recorded("writes", lambda memory: memory.post_turn("t", 1, sentence(1), at=START))
    async with CortexEngine.direct(url, KEY) as engine, bare_client(url) as client:
        memory = AgentMemory(engine, WRITERS, "poster")

        async def bare(number: int) -> None:
            content = {**body["content"], "text": sentence(number)}
            sent = {**body, "content": content, "idempotency_key": f"bare-{number}"}
            (await client.post("/v1/experience", json=sent)).raise_for_status()

        async def ours(number: int) -> None:
            await memory.post_turn("t", number, sentence(number), at=START + timedelta(seconds=number))

        await timed({"bare": bare, "ours": ours}, 20)  # connections, caller, caches
        times = await timed({"bare": lambda n: bare(n + 1000), "ours": lambda n: ours(n + 1000)}, rounds)
    ratio = median(times["ours"]) / median(times["bare"])
    measured = f"{median(times['ours']):.2f} ms, bare {median(times['bare']):.2f} ms: {ratio:.2f}x"
    return Result("post_turn", measured, "at most 1.3x a bare append", ratio <= 1.3)


async def pre_turn(url: str, rounds: int) -> Result:
    """A turn's log and read against the slowest of the same recalls, sent at once by a bare client."""
    recalls = await recorded("recalls", lambda memory: memory.pre_turn("t", 1, sentence(1), at=START))
    slowest: list[float] = []
    async with CortexEngine.direct(url, KEY) as engine, bare_client(url) as client:
        memory = AgentMemory(engine, LAYOUT, "support-01")
        await seed(memory)

        async def one(body: dict[str, Any]) -> float:
            started = perf_counter()
            (await client.post("/v1/recall", json=body)).raise_for_status()
            return (perf_counter() - started) * 1000

        async def bare(_: int) -> None:
            slowest.append(max(await asyncio.gather(*map(one, recalls))))

        async def ours(number: int) -> None:
            await memory.pre_turn("t", number, sentence(number), at=START + timedelta(seconds=number))

        await timed({"bare": bare, "ours": ours}, 5)
        slowest.clear()
        times = await timed({"bare": bare, "ours": ours}, rounds)
    taken, read = median(times["ours"]), median(slowest)
    allowed = 1.2 * read + 2
    measured = f"{taken:.1f} ms; slowest of its {len(recalls)} recalls {read:.1f} ms, so {allowed:.1f} ms"
    return Result("pre_turn", measured, "at most 1.2x its slowest read + 2 ms", taken <= allowed)


async def store_many() -> Result:
    """How many requests a hundred learnings take."""
    items = [Learning(text=sentence(number), kind=LearningKind.FACT, confidence=0.5) for number in range(100)]
    async with cortex_server() as server, CortexEngine.direct(server.url, KEY) as engine:
        started = perf_counter()
        await engine.store_many(items)
        taken = perf_counter() - started
        count = server.seen.count()
    return Result(
        "store_many of 100", f"{count} requests, {taken * 1000:.0f} ms", "at most 4 requests", count <= 4
    )


async def memory_over(url: str, turns: int) -> Result:
    """This process's memory after the first tenth of the turns, and after all."""
    async with CortexEngine.direct(url, KEY) as engine:
        memory = AgentMemory(engine, WRITERS, "long")
        early = 0.0
        for number in range(turns):
            await memory.post_turn("t", number, sentence(number), at=START + timedelta(seconds=number))
            if number == turns // 10:
                early = resident_mib()
        late = resident_mib()
    measured = f"{early:.1f} MiB after {turns // 10:,} turns, {late:.1f} MiB after {turns:,}"
    return Result("memory", measured, "flat: within 2 MiB", late - early <= 2)


def resident_mib() -> float:
    """What of this process is in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def bare_client(url: str) -> httpx.AsyncClient:
    """What a host would write without a library."""
    return httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {KEY}"}, trust_env=False)


async def measure(options: argparse.Namespace) -> list[Result]:
    """Everything, one after another."""
    with server_process(options.recall_delay) as url:
        return [
            await post_turn(url, options.calls),
            await pre_turn(url, options.calls // 4),
            await store_many(),
            await memory_over(url, options.turns),
        ]


def main() -> int:
    """Print the table; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--turns", type=int, default=10_000)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--recall-delay", type=float, default=0.05)
    results = asyncio.run(measure(parser.parse_args()))
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    machine = f"{os.cpu_count()} cores, load {load:.1f} a core"
    print(f"Python {platform.python_version()}, httpx {httpx.__version__}, {machine}")
    for result in results:
        verdict = "met" if result.met else "MISSED"
        print(f"{result.name:18} {result.measured:62} {result.target:38} {verdict}")
    return 0 if all(result.met for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
