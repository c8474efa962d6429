"""Several requests at once, but never too many."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TypeVar

AT_ONCE = 4
"""How many requests of one group are under way at a time."""

T = TypeVar("T")
R = TypeVar("R")


async def each(items: Iterable[T], do: Callable[[T], Awaitable[R]]) -> list[R]:
    """Do something for every item, at most `AT_ONCE` at a time.

    Returns:
        The results in the order of the items.

    Raises:
        BaseException: The first error; what was under way is cancelled, the rest is not begun.
    """
    work = list(items)
    if len(work) == 1:
        return [await do(work[0])]
    results: dict[int, R] = {}
    left = iter(enumerate(work))
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(AT_ONCE, len(work))):
                group.create_task(_work(left, do, results))
    except BaseExceptionGroup as errors:
        first = errors.exceptions[0]
        # As raised: its cause says more than the group does.
        raise first from first.__cause__
    return [results[index] for index in range(len(work))]


async def _work(
    left: Iterator[tuple[int, T]], do: Callable[[T], Awaitable[R]], results: dict[int, R]
) -> None:
    for index, item in left:
        results[index] = await do(item)
