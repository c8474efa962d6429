"""A timeout that does not blame the other side for a busy event loop."""

import asyncio
from types import TracebackType
from typing import Self

TICKS = 4


class Deadline:
    """`asyncio.timeout`, counting only the time in which the loop could have seen an answer.

    When a host computes for 300 ms without awaiting, an answer that came after 1 ms and a timeout of
    200 ms become due together, and `asyncio.timeout` lets the timeout win.  Here the time runs in
    four ticks, each of which begins when the loop got round to the one before.

    Raises:
        TimeoutError: As `asyncio.timeout` does.
    """

    def __init__(self, seconds: float) -> None:
        self._tick = seconds / TICKS
        self._scope = asyncio.timeout(None)
        self._loop = asyncio.get_running_loop()

    async def __aenter__(self) -> Self:
        await self._scope.__aenter__()
        self._timer = self._loop.call_later(self._tick, self._ticked, TICKS - 1)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        self._timer.cancel()
        return await self._scope.__aexit__(kind, error, trace)

    def _ticked(self, left: int) -> None:
        if left:
            self._timer = self._loop.call_later(self._tick, self._ticked, left - 1)
        else:
            self._scope.reschedule(self._loop.time())
