"""What hosts test against: CortexDB's two wires on loopback, and an engine that fails on demand."""

from tinymemory.testing import raw
from tinymemory.testing.clock import Clock, ManualClock
from tinymemory.testing.event import Event
from tinymemory.testing.knobs import Knobs
from tinymemory.testing.log import EventLog
from tinymemory.testing.raw import RawAnswer
from tinymemory.testing.seen import Seen
from tinymemory.testing.server import CortexServer, cortex_server
from tinymemory.testing.waiting import wait_until
from tinymemory.testing.watched import EngineCall, Watch, WatchedEngine

__all__ = [
    "Clock",
    "CortexServer",
    "EngineCall",
    "Event",
    "EventLog",
    "Knobs",
    "ManualClock",
    "RawAnswer",
    "Seen",
    "Watch",
    "WatchedEngine",
    "cortex_server",
    "raw",
    "wait_until",
]
