"""The engines of one process: one for each root and profile, made when first needed."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tinymemory.engine import MemoryEngine
from workers.ledger import Party

MAX_IDLE = 256
"""Engines kept while nobody uses them; what exceeds it is closed, the longest idle first."""

MakeEngine = Callable[[Party], MemoryEngine]


@dataclass(slots=True)
class _Kept:
    engine: MemoryEngine
    users: int = 0


class EngineCache:
    """Engines by party; one tenant's jobs never meet another tenant's engine or credential.

    Belongs to one event loop.
    """

    def __init__(self, make: MakeEngine, *, max_idle: int = MAX_IDLE) -> None:
        self._make = make
        self._max_idle = max_idle
        self._kept: OrderedDict[Party, _Kept] = OrderedDict()

    @asynccontextmanager
    async def engine(self, party: Party) -> AsyncGenerator[MemoryEngine]:
        """The party's engine, open for as long as the block runs.

        Raises:
            ConfigError: It cannot be made; the message names what is wrong.
        """
        kept = self._kept.get(party)
        if kept is None:
            # In a thread: making one may open files, and a host's own factory may do anything.
            made = _Kept(await asyncio.to_thread(self._make, party))
            kept = self._kept.setdefault(party, made)
            if kept is not made:
                await made.engine.aclose()
        kept.users += 1
        self._kept.move_to_end(party)
        try:
            yield kept.engine
        finally:
            kept.users -= 1
            await self._close_surplus()

    async def aclose(self) -> None:
        """Close every engine; the first error is raised when all have been."""
        engines = [kept.engine for kept in self._kept.values()]
        self._kept.clear()
        results = await asyncio.gather(*(engine.aclose() for engine in engines), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _close_surplus(self) -> None:
        surplus = len(self._kept) - self._max_idle
        if surplus <= 0:
            return
        idle = [party for party, kept in self._kept.items() if not kept.users][:surplus]
        for kept in [self._kept.pop(party) for party in idle]:
            await kept.engine.aclose()
