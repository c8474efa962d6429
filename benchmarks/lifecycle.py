"""What the calls around a turn cost: milliseconds each, on the embedded engine and in memory.

    python benchmarks/lifecycle.py [--turns 2000] [--calls 200]

`null` is an engine that answers at once with nothing: what is left is the library's own cost.  On a
machine that others use, compare `cpu`, the time of all the process's threads.
"""

import argparse
import asyncio
import os
import tempfile
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter, process_time

from tinymemory import (
    AgentMemory,
    BrainDocument,
    EngineDescriptor,
    FetchMode,
    FetchPage,
    ListPage,
    MemoryEngine,
    MemoryLayout,
    Namespace,
    ReferenceEngine,
    Role,
    SqliteEngine,
    StoreReceipt,
    Turn,
)
from tinymemory.engine import Item
from tinymemory.query import FetchRequest, ListRequest
from tinymemory.testing.watched import WatchedEngine

WORDS = "refund invoice parcel kitchen oven warranty courier delay receipt policy credit order".split()  # noqa: SIM905  # shorter
START = datetime(2026, 1, 1, tzinfo=UTC)


def sentence(number: int) -> str:
    """A sentence of a dozen words, different for each number."""
    return f"Question {number}: " + " ".join(WORDS[(number * step) % len(WORDS)] for step in range(1, 12))


def null_engine() -> MemoryEngine:
    """Answers nothing, at once."""
    engine = WatchedEngine(
        ReferenceEngine(),
        descriptor=EngineDescriptor(id="null", label="Null", description="", fetch_modes=(FetchMode.HYBRID,)),
    )

    def fetch(_: FetchRequest) -> FetchPage:
        return FetchPage()

    def listed(_: ListRequest) -> ListPage:
        return ListPage()

    def store(item: Item) -> StoreReceipt:
        return StoreReceipt(id=item.fingerprint(), replayed=False)

    engine.watch.answers.update(fetch=fetch, list=listed, store_with=store, beliefs=lambda _: [])
    return engine


async def fill(engine: MemoryEngine, turns: int) -> AgentMemory:
    """An agent with that many turns, a colleague with half, and forty documents."""
    layout = MemoryLayout(Namespace.parse("team:bench"))
    memory, colleague = (AgentMemory(engine, layout, agent) for agent in ("support-01", "coder-42"))
    await memory.brain().ingest_many(
        BrainDocument("markdown", f"{sentence(number)}\n\n" * 20, title=f"Page {number}")
        for number in range(40)
    )
    for number in range(turns):
        at = START + timedelta(minutes=number)
        await memory.post_turn(f"thread-{number // 20}", number % 20, sentence(number), at=at)
        if number % 2:
            await colleague.post_turn(f"theirs-{number // 20}", number % 20, sentence(number), at=at)
    await memory.run_background(memory.history_build())
    return memory


async def measure(engine: MemoryEngine, turns: int, calls: int) -> None:
    """Print one line per call."""
    memory = await fill(engine, turns)
    dropped = [Turn(role=Role.USER, text=sentence(number)) for number in range(12)]
    at = START + timedelta(days=365)
    per_call: dict[str, Callable[[int], Awaitable[object]]] = {
        "pre_turn": lambda n: memory.pre_turn("now", n, sentence(n), at=at + timedelta(minutes=n)),
        "post_turn": lambda n: memory.post_turn("then", n, sentence(n), at=at + timedelta(minutes=n)),
        "recall": lambda n: memory.recall(sentence(n)),
        "start_session": lambda n: memory.start_session("thread-1"),
        "start_session, with a focus": lambda n: memory.start_session("thread-1", sentence(n)),
        "recall_for_compaction": lambda n: memory.recall_for_compaction("thread-1", dropped),
    }
    for name, call in per_call.items():
        spent: list[float] = []
        busy: list[float] = []
        for number in range(calls):
            before, busy_before = perf_counter(), process_time()
            await call(number)
            spent.append((perf_counter() - before) * 1000)
            busy.append((process_time() - busy_before) * 1000)
        p95 = quantiles(spent, n=20)[-1]
        print(
            f"{engine.descriptor.id:10} {name:28} median {median(spent):8.2f} ms   p95 {p95:8.2f} ms"
            f"   cpu {median(busy):8.2f} ms"
        )


async def main(turns: int, calls: int) -> None:
    """Measure each engine in turn."""
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores, {turns} turns stored")
    await measure(null_engine(), 0, calls)
    with tempfile.TemporaryDirectory() as folder:
        async with SqliteEngine(Path(folder) / "memory.db") as engine:
            await measure(engine, turns, calls)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--turns", type=int, default=2000)
    parser.add_argument("--calls", type=int, default=100)
    arguments = parser.parse_args()
    asyncio.run(main(arguments.turns, arguments.calls))
