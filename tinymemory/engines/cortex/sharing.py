"""One request for all who ask the same at the same moment, as the sections of one recall do."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from contextvars import copy_context
from dataclasses import dataclass
from itertools import count
from typing import Generic, TypeVar

R = TypeVar("R")


_moments = count()


def now() -> int:
    """A moment of this process, to tell what came before what; no two are the same."""
    return next(_moments)


@dataclass(slots=True)
class _Flight(Generic[R]):
    task: "asyncio.Task[R]"
    left: int | None = None
    """When its request left; None until then."""
    waiting: int = 0


class Shared(Generic[R]):
    """Reads whose callers share one request when it left after each of them began.

    What was written before a caller began is therefore in its answer, and nothing outlives the
    request.  Only callers with the same context variables share: a credential source may tell
    users apart by them.
    """

    def __init__(self) -> None:
        self._flights: dict[Hashable, _Flight[R]] = {}

    async def read(self, key: Hashable, request: Callable[[], Awaitable[R]], began: int | None = None) -> R:
        """What the request answers, sent by this caller or by another with the same key.

        Args:
            key: Names what is read.
            request: Sends it.
            began: `now()` when what the answer is for was begun; None is this moment.

        Raises:
            BaseException: What the request raised, to each of those who share it.  A caller that is
                cancelled leaves the request to the others; with the last one it is cancelled too.
        """
        # By identity, because a value need not be hashable; the task's own context keeps them alive.
        values = frozenset((var, id(value)) for var, value in copy_context().items())
        place = (key, asyncio.get_running_loop(), values)
        flight = self._flights.get(place)
        if flight is None or (flight.left is not None and (began is None or began >= flight.left)):
            flight = self._flights[place] = self._boarding(place, request)
        flight.waiting += 1
        try:
            await asyncio.wait([flight.task])
        finally:
            flight.waiting -= 1
            if not flight.waiting and not flight.task.done():
                await self._abandon(place, flight)
        return flight.task.result()

    def _boarding(self, place: Hashable, request: Callable[[], Awaitable[R]]) -> _Flight[R]:
        async def fly() -> R:
            flight.left = now()
            try:
                return await request()
            finally:
                self._forget(place, flight)

        flight = _Flight(asyncio.create_task(fly()))
        # Looked at, also when everybody who waited was cancelled just then: asyncio would tell the log.
        flight.task.add_done_callback(lambda task: task.cancelled() or task.exception())
        return flight

    async def _abandon(self, place: Hashable, flight: _Flight[R]) -> None:
        self._forget(place, flight)  # at once: nobody may join what is being cancelled
        flight.task.cancel()
        await asyncio.wait([flight.task])

    def _forget(self, place: Hashable, flight: _Flight[R]) -> None:
        if self._flights.get(place) is flight:
            del self._flights[place]
