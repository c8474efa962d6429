"""Real servers for the tests that need them, each on a port of its own."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from workers.testing import RedisServer


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
