"""A test waits for a condition, within a time."""

import itertools

import pytest

from tinymemory.testing import wait_until


async def test_waiting_ends_when_the_condition_holds() -> None:
    calls = itertools.count(1)

    async def third() -> bool:
        return next(calls) == 3

    await wait_until(third, every=0.001)
    await wait_until(lambda: next(calls) >= 6, every=0.001)

    assert next(calls) == 7


async def test_waiting_ends_with_its_time() -> None:
    with pytest.raises(TimeoutError):
        await wait_until(lambda: False, timeout=0.02, every=0.001)
