"""Waiting for a condition instead of sleeping for luck."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable


async def wait_until(
    condition: Callable[[], bool | Awaitable[bool]], *, timeout: float = 30.0, every: float = 0.01
) -> None:
    """Return once a condition holds, asking every so many seconds; it may be a coroutine function.

    Raises:
        TimeoutError: It did not hold within `timeout` seconds.
    """
    async with asyncio.timeout(timeout):
        while True:
            held = condition()
            if await held if inspect.isawaitable(held) else held:
                return
            await asyncio.sleep(every)
