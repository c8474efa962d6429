"""The loopback CortexDB servers: `async with cortex_server(wire="direct") as server`."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Literal

from tinymemory.testing.clock import Clock, ManualClock
from tinymemory.testing.direct import DirectWire
from tinymemory.testing.hosted import HostedWire
from tinymemory.testing.knobs import Knobs
from tinymemory.testing.log import EventLog
from tinymemory.testing.recall import Packs
from tinymemory.testing.seen import Seen
from tinymemory.testing.serving import Serving

WireName = Literal["direct", "hosted"]


class CortexServer:
    """A running server, and a test's hands inside it."""

    def __init__(self, wire: WireName, clock: Clock, knobs: Knobs, seen: Seen) -> None:
        if knobs.auto_build is None:
            knobs.auto_build = wire == "hosted"
        self.wire: WireName = wire
        self.clock = clock
        """What everything timed reads; `advance(seconds)` puts it forward."""
        self.knobs = knobs
        """What can be made to go wrong; change it while the server runs."""
        self.seen = seen
        """What the server was asked."""
        self.log = EventLog(clock, knobs, closed_types=wire == "direct")
        """What it holds."""
        self.url = ""
        """Where it listens, without a trailing slash."""
        surface = DirectWire if wire == "direct" else HostedWire
        packs = Packs(self.log, clock, knobs)
        self._serving = Serving(surface(self.log, packs, knobs, seen, clock).answer)

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Listen; port 0 takes a free one.

        Raises:
            OSError: The port is taken.
        """
        bound, port = await self._serving.start(host, port)
        self.url = f"http://[{bound}]:{port}" if ":" in bound else f"http://{bound}:{port}"

    async def aclose(self) -> None:
        """Stop, and drop every connection."""
        await self._serving.aclose()


@asynccontextmanager
async def cortex_server(
    wire: WireName = "direct",
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    clock: Clock | Literal["real", "manual"] = "real",
    **knobs: Any,
) -> AsyncGenerator[CortexServer]:
    """Serve one wire of CortexDB from memory, on a free loopback port unless one is named.

    `clock` is real time from 2026-09-02 on, or stands still ("manual"); both can be put forward.
    `knobs` are the fields of `Knobs`.

    Raises:
        TypeError: There is no such knob.
        ValueError: There is no such wire.
    """
    if wire not in ("direct", "hosted"):
        raise ValueError(f"wire must be direct or hosted, not {wire}")
    if not isinstance(clock, Clock):
        clock = ManualClock() if clock == "manual" else Clock()
    server = CortexServer(wire, clock, Knobs(**knobs), Seen())
    await server.start(host, port)
    try:
        yield server
    finally:
        await server.aclose()
