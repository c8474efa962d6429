"""A small tree of agents with a memory at each node, and tools placed in it."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tinymemory import Learning, MemoryMeta, MemoryTools, Namespace, ReferenceEngine
from tinymemory.engine import Item

NOW = datetime(2026, 9, 15, 9, 1, tzinfo=UTC)


class CountingEngine(ReferenceEngine):
    """Keeps the names of the calls it got."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in {"recall", "fetch", "list", "get", "explore", "store", "forget"}:
            return found

        def counted(*args: Any, **kwargs: Any) -> Any:
            self.calls.append(name)
            return found(*args, **kwargs)

        return counted


@pytest.fixture
def engine() -> CountingEngine:
    return CountingEngine()


@pytest.fixture
def tools(engine: CountingEngine) -> MemoryTools:
    """Single tenant: everything is read, writes land at the root."""
    return MemoryTools(engine, clock=lambda: NOW)


PLACES = {
    "root": "root",
    "team": "team:acme",
    "writer": "team:acme/agent:writer",
    "reader": "team:acme/agent:reader",
    "below": "team:acme/agent:writer/project:book",
    "other": "team:other",
}


@pytest.fixture
async def ids(engine: CountingEngine) -> dict[str, str]:
    """One learning at each node of the tree, by the node's short name; each says `tide`."""
    stored: dict[str, str] = {}
    for name, place in PLACES.items():
        item: Item = Learning(
            text=f"tide of {name}", meta=MemoryMeta(namespace=Namespace.parse(place), tags=("tide", name))
        )
        stored[name] = (await engine.store(item)).id
    engine.calls.clear()
    return stored
