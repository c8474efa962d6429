"""What a model's tools and context.md cost: milliseconds a call, and tokens in the prompt.

    python benchmarks/tools.py [--items 2000] [--calls 200]

On the embedded engine, in a folder of its own.
"""

import argparse
import asyncio
import json
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter
from typing import Any

from tinymemory import Learning, MemoryMeta, MemoryTools, Namespace, SqliteEngine, compile_context
from tinymemory.context import ContextSpec
from tinymemory.recall.pack import tokens_of

AGENT = "team:acme/agent:writer"
WORDS = ["refund", "invoice", "parcel", "oven", "warranty", "courier", "delay", "receipt", "policy", "credit"]


def learning(number: int) -> Learning:
    """A statement of a dozen words, different for each number."""
    words = " ".join(WORDS[(number * step) % len(WORDS)] for step in range(1, 11))
    meta = MemoryMeta(namespace=Namespace.parse(AGENT), tags=(f"tag-{number % 20}",))
    return Learning(text=f"Case {number}: {words}", meta=meta)


async def timed(call: Callable[[int], Awaitable[Any]], calls: int) -> list[float]:
    """Milliseconds of each call, one after another."""
    taken: list[float] = []
    for number in range(calls):
        start = perf_counter()
        await call(number)
        taken.append((perf_counter() - start) * 1000)
    return taken


async def measure(items: int, calls: int, folder: Path) -> None:
    """Fill an engine, run every tool and the compiler, print a table."""
    async with SqliteEngine(folder / "memory.db") as engine:
        for start in range(0, items, 100):
            await engine.store_many([learning(number) for number in range(start, min(start + 100, items))])
        tools = MemoryTools(engine).placed_at(AGENT)
        ids = [hit["id"] for hit in (await tools.call("memory_list", {"limit": 10}))["items"]]
        arguments: dict[str, Callable[[int], dict[str, Any]]] = {
            "memory_recall": lambda n: {"question": f"refund {WORDS[n % 10]}"},
            "memory_fetch": lambda n: {"query": f"refund {WORDS[n % 10]}"},
            "memory_list": lambda n: {"filter": {"tags_any": [f"tag-{n % 20}"]}},
            "memory_get": lambda n: {"ids": ids},
            "memory_explore": lambda n: {"facet": "tag"},
            "memory_store": lambda n: {"learning": {"text": f"New case {n}"}},
            "memory_forget": lambda n: {"ids": [f"unknown-{n}"]},
        }
        print(f"{items} learnings, {calls} calls each; ms\n{'':16}{'p50':>8}{'p95':>8}")
        for name, build in arguments.items():
            report(name, await timed(lambda n, name=name, build=build: tools.call(name, build(n)), calls))
        report("compile_context", await timed(lambda n: compile_context(engine, ContextSpec()), calls // 10))
        for label, offered in (("all seven", tools), ("read-only", tools.read_only())):
            specs = [spec.model_dump(mode="json") for spec in offered.specs()]
            size = len(json.dumps(specs, separators=(",", ":")))
            print(f"the specs of {label}: {size} characters, about {tokens_of(size)} tokens")


def report(name: str, taken: list[float]) -> None:
    """One row."""
    print(f"{name:16}{median(taken):8.2f}{quantiles(taken, n=20)[-1]:8.2f}")


def main() -> None:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=2000)
    parser.add_argument("--calls", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(options.items, options.calls, Path(folder)))


if __name__ == "__main__":
    main()
