"""Flower, where it falls short of what its login promises and of what a container allows it."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUntypedBaseClass=false, reportUntypedFunctionDecorator=false, reportMissingParameterType=false
# pyright: reportOptionalMemberAccess=false
# Flower ships no types.

import threading
from typing import Any

from flower import urls
from flower.events import Events
from flower.views.monitor import Metrics
from tornado.web import authenticated

METRICS = "/metrics"
MOST_PENDING = 10_000
"""How many events have been read and are not yet in a row."""


class GuardedMetrics(Metrics):
    """Flower's metrics, behind the login when there is one.

    Flower serves them to everyone: https://github.com/mher/flower/issues/1342
    """

    @authenticated
    async def get(self) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]  # the decorator widens it
        """The exposition, for whoever may see the pages."""
        await super().get()


def guard_metrics() -> None:
    """Put the guarded handler in the place of Flower's, for the application started next."""
    urls.handlers[:] = [
        (METRICS, GuardedMetrics) if isinstance(entry, tuple) and entry[0] == METRICS else entry
        for entry in urls.handlers
    ]


def bound_events() -> None:
    """Have Flower read events no faster than it makes rows of them, in the process started next.

    Its reading thread hands them to the event loop without end: in a burst they pile up there, a few
    hundred megabytes of them.  Read later, they wait in the broker, which bounds them itself.
    """
    room = threading.Semaphore(MOST_PENDING)

    def on_event(self: Events, event: dict[str, Any]) -> None:
        def take_in() -> None:
            room.release()
            self.state.event(event)

        room.acquire()
        self.io_loop.add_callback(take_in)

    Events.on_event = on_event
