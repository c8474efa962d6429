"""A host's view of the session's Redis server."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from redis import Redis

from workers import MemoryJobs, WorkerSettings
from workers.ledger import LedgerOptions, SyncLedger
from workers.testing import RedisServer

MakeSettings = Callable[..., WorkerSettings]


@pytest.fixture
def sync_redis(redis_server: RedisServer) -> Iterator[Redis]:
    """A client without a loop on the session's server, which is empty now."""
    with Redis(port=redis_server.port, decode_responses=True) as client:
        client.flushall()  # pyright: ignore[reportUnknownMemberType]  # redis-py leaves **kwargs untyped
        yield client


@pytest.fixture
def make_settings(redis_server: RedisServer, sync_redis: Redis) -> MakeSettings:
    """Builds settings for that server."""

    def make(**values: Any) -> WorkerSettings:
        return WorkerSettings.load(**{"redis_url": redis_server.url} | values)

    return make


@pytest.fixture
def sync_ledger(sync_redis: Redis, make_settings: MakeSettings) -> SyncLedger:
    """The ledger on that server, as a worker would use it."""
    return SyncLedger(sync_redis, LedgerOptions.from_settings(make_settings()))


@pytest.fixture
def jobs(make_settings: MakeSettings) -> Iterator[MemoryJobs]:
    """A host's `MemoryJobs` without a spool; a test with a loop closes what it opened there."""
    with MemoryJobs(make_settings()) as jobs:
        yield jobs
