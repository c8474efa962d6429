"""Loopback servers to test a host against: CortexDB's two wires, as strict as the real ones."""

from tinymemory.testing import raw
from tinymemory.testing.clock import Clock, ManualClock
from tinymemory.testing.event import Event
from tinymemory.testing.knobs import Knobs
from tinymemory.testing.log import EventLog
from tinymemory.testing.raw import RawAnswer
from tinymemory.testing.seen import Seen
from tinymemory.testing.server import CortexServer, cortex_server
from tinymemory.testing.waiting import wait_until

__all__ = [
    "Clock",
    "CortexServer",
    "Event",
    "EventLog",
    "Knobs",
    "ManualClock",
    "RawAnswer",
    "Seen",
    "cortex_server",
    "raw",
    "wait_until",
]
