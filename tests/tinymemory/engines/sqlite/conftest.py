"""A store of one's own, and the plainest items to put into it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tinymemory import SqliteEngine


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a store may be."""
    return tmp_path / "memory.db"


@pytest.fixture
async def engine(path: Path) -> AsyncIterator[SqliteEngine]:
    """An empty store."""
    async with SqliteEngine(path) as engine:
        yield engine
