"""Flower takes events in no faster than it makes rows of them."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# Flower ships no types.

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from flower.events import Events

from workers.flower import MOST_PENDING, bound_events


@pytest.fixture(autouse=True)
def bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """What this changes in Flower's class is undone behind each test."""
    monkeypatch.setattr(Events, "on_event", Events.on_event)
    bound_events()


def test_r36_what_reads_events_waits_once_ten_thousand_are_pending() -> None:
    pending: list[Callable[[], None]] = []
    rows: list[int] = []
    flower: Any = SimpleNamespace(
        io_loop=SimpleNamespace(add_callback=pending.append), state=SimpleNamespace(event=rows.append)
    )
    on_event = cast(Callable[[Any, int], None], Events.on_event)
    for number in range(MOST_PENDING):
        on_event(flower, number)

    reading = threading.Thread(target=on_event, args=(flower, MOST_PENDING))
    reading.start()
    reading.join(0.2)
    assert reading.is_alive()
    pending[0]()
    reading.join(10)

    assert not reading.is_alive()
    assert (len(pending), rows) == (MOST_PENDING + 1, [0])
