"""The embedded engine keeps every promise of an engine."""

from collections.abc import Callable
from pathlib import Path

from tinymemory import MemoryEngine
from tinymemory.engines.sqlite import SqliteEngine

pytest_plugins = ["tinymemory.conformance.plugin"]


def test_the_embedded_engine(
    conformance: Callable[[Callable[[], MemoryEngine]], None], tmp_path: Path
) -> None:
    conformance(lambda: SqliteEngine(tmp_path / "memory.db"))
