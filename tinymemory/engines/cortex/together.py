"""Several requests at once, but never too many, and what only one of them may do."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import TypeVar

AT_ONCE = 4
"""How many requests of one group are under way at a time."""

T = TypeVar("T")
R = TypeVar("R")


class LoopLock:
    """A lock that outlives an event loop: a host may call `asyncio.run` for each turn.

    One of asyncio's belongs to the loop in which somebody first waited for it.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = asyncio.Lock()

    def here(self) -> asyncio.Lock:
        """The lock of the running loop."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._lock = loop, asyncio.Lock()
        return self._lock


async def each(
    items: Iterable[T],
    do: Callable[[T], Awaitable[R]],
    *,
    then: Coroutine[object, object, Iterable[T]] | None = None,
) -> list[R]:
    """Do something for every item, at most `AT_ONCE` at a time.

    Args:
        items: The first items, begun at once.
        do: What to do for each.
        then: Finds the items after them, meanwhile.

    Returns:
        The results in the order of the items.

    Raises:
        BaseException: The first error; what was under way is cancelled, the rest is not begun.
    """
    free = asyncio.Semaphore(AT_ONCE)

    async def work(item: T) -> R:
        async with free:
            return await do(item)

    try:
        async with asyncio.TaskGroup() as group:
            finding = None if then is None else group.create_task(then)
            tasks = [group.create_task(work(item)) for item in items]
            if finding is not None:
                tasks += [group.create_task(work(item)) for item in await finding]
    except BaseExceptionGroup as errors:
        first = errors.exceptions[0]
        # As raised: its cause says more than the group does.
        raise first from first.__cause__
    return [task.result() for task in tasks]
