"""Real servers for the tests that need them, each on a port of its own."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from workers.testing import RedisServer

# Readline, where it is loaded, hands these down to the processes of xdist: commands would take them for
# the width that a person asks for.
for name in ("COLUMNS", "LINES"):
    os.environ.pop(name, None)

PROCESSES = ("live", "chaos", "browser", "workers/cortex")
"""Folders whose tests run worker processes and wait for them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep tests of worker processes in one of xdist's processes, beside all others in the rest."""
    folders = [Path(__file__).parent / name for name in PROCESSES]
    for item in items:
        if any(item.path.is_relative_to(folder) for folder in folders):
            item.add_marker(pytest.mark.xdist_group("processes"))
            if os.environ.get("CI"):
                # On a machine that others load as well, twenty processes can miss a deadline; a fault
                # of ours fails three times.  What was run again is counted in the closing line.
                item.add_marker(pytest.mark.flaky(reruns=2))


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A Redis server of the session's own, append-only; whoever stops it starts it again."""
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
async def redis(redis_server: RedisServer) -> AsyncIterator[Redis]:
    """A client on that server, which is empty now."""
    client = Redis(port=redis_server.port, decode_responses=True)
    await client.flushall()  # pyright: ignore[reportUnknownMemberType]  # redis-py leaves **kwargs untyped
    yield client
    await client.aclose()


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """An empty folder for the embedded engine."""
    return tmp_path / "data"
