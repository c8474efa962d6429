"""A ledger for tests, whose time stands still until it is moved."""

from typing import Self

from redis.asyncio import Redis

from workers.ledger.ledger import Ledger
from workers.ledger.options import LedgerOptions
from workers.ledger.transitions import Transitions

START_MS = 1_800_000_000_000


class MovableClock:
    """What the scripts of `still_ledger` take for Redis's time.

    Those scripts read it from a key in the place of `TIME`; the production scripts are other texts
    with other hashes and know no such key.
    """

    def __init__(self, client: Redis, key_prefix: str = LedgerOptions().key_prefix) -> None:
        self._client = client
        self._key = f"{key_prefix}test:now"
        self.now_ms = START_MS

    async def start(self) -> Self:
        """Set it for the first time."""
        await self._client.set(self._key, self.now_ms)
        return self

    async def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now_ms += round(seconds * 1000)
        await self._client.set(self._key, self.now_ms)


def still_ledger(client: Redis, options: LedgerOptions | None = None) -> Ledger:
    """A ledger that goes by a `MovableClock` on the same server."""
    return Ledger(client, calls=Transitions(options or LedgerOptions(), clock="test_clock"))
