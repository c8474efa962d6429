"""A timeout that a busy loop does not trip."""

import asyncio
import time

import pytest

from workers.deadline import Deadline


async def test_what_takes_too_long_times_out() -> None:
    started = time.monotonic()

    with pytest.raises(TimeoutError):
        async with Deadline(0.05):
            await asyncio.sleep(60)

    assert time.monotonic() - started < 5


async def test_an_answer_that_came_while_the_loop_was_busy_counts() -> None:
    answer = asyncio.get_running_loop().create_future()

    async with Deadline(0.05):
        await asyncio.sleep(0)
        time.sleep(0.3)  # noqa: ASYNC251  # a host that computes without awaiting
        asyncio.get_running_loop().call_later(0.01, answer.set_result, "in time")
        found = await answer

    assert found == "in time"


async def test_a_loop_that_is_always_busy_does_not_wait_for_ever() -> None:
    async def keep_busy() -> None:
        while True:
            time.sleep(0.02)  # noqa: ASYNC251  # as above
            await asyncio.sleep(0)

    busy = asyncio.create_task(keep_busy())
    with pytest.raises(TimeoutError):
        async with Deadline(0.01):
            await asyncio.sleep(60)
    busy.cancel()


async def test_a_cancellation_from_outside_stays_one() -> None:
    async def wait() -> None:
        async with Deadline(60):
            await asyncio.sleep(60)

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
