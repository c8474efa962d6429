"""A ledger whose clock stands still, and whose keys are all known afterwards."""

from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from workers.ledger import Ledger
from workers.ledger.testing import MovableClock, still_ledger

PREFIX = "{tinymemory}:"
KEYS_THAT_STAY = {
    *("counter", "counts", "totals", "queues", "test"),
    *("roots", "active", "resting", "lanes", "heads", "asleep", "ring", "capped", "express"),
    *("job", "text", "due", "parked", "parkings", "queued", "running", "held", "wide"),
    *("breakers", "breaker", "trials", "history", "dead"),
}
"""The table of keys in the package's docstring, those without an expiry."""


@pytest.fixture
async def clock(redis: Redis) -> MovableClock:
    return await MovableClock(redis).start()


@pytest.fixture
async def ledger(redis: Redis, clock: MovableClock) -> AsyncIterator[Ledger]:
    yield still_ledger(redis)

    # Not KEYS or SCAN through redis-py, whose types know no decoded reply.
    for key in await redis.eval("return redis.call('KEYS', '*')", 0):
        stays = key.removeprefix(PREFIX).partition(":")[0] in KEYS_THAT_STAY
        assert stays or await redis.ttl(key) > 0, f"nobody ends {key}"
