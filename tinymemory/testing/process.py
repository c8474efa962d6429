"""A loopback server as a process of its own: `python -m tinymemory.testing`."""

import argparse
import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

from tinymemory.testing.clock import Clock
from tinymemory.testing.knobs import Knobs
from tinymemory.testing.seen import Seen
from tinymemory.testing.server import CortexServer, WireName

PORT = 3141
"""CortexDB's own."""


async def serve(
    wire: WireName = "direct",
    *,
    host: str = "127.0.0.1",
    port: int = PORT,
    announce: Callable[[str], None] | None = None,
    **knobs: Any,
) -> None:
    """Serve until SIGINT or SIGTERM; memory only, so a stop forgets everything.

    Unlike a test's server it stamps events with the real time, and keeps no record of what it was asked.
    `announce` is called with the URL once it listens.

    Raises:
        OSError: The port is taken.
        TypeError: There is no such knob.
    """
    server = CortexServer(wire, Clock(datetime.now(UTC)), Knobs(**knobs), Seen(recording=False))
    stopped = _stop_signal()
    await server.start(host, port)
    try:
        if announce is not None:
            announce(server.url)
        await stopped.wait()
    finally:
        await server.aclose()


def welcome(wire: WireName, url: str, knobs: Mapping[str, Any]) -> str:
    """The line a server says once it listens."""
    delay = knobs.get("extraction_delay", 0.0)
    return f"cortexdb ({wire}) on {url}, in memory, facts {delay:g} s behind the writes"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    knobs = dict(options.knobs, extraction_delay=options.extraction_delay)

    def announce(url: str) -> None:
        sys.stdout.write(welcome(options.wire, url, knobs) + "\n")
        sys.stdout.flush()

    try:
        # A Ctrl-C before the handlers stand, or where a loop has none.
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(serve(options.wire, host=options.host, port=options.port, announce=announce, **knobs))
    except OSError as error:
        sys.stderr.write(f"error: cannot listen on {options.host}:{options.port}: {error.strerror}\n")
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tinymemory.testing",
        description="Serve CortexDB's wire from memory, for development: any key is accepted.",
    )
    parser.add_argument("--wire", choices=("direct", "hosted"), default="direct")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=PORT, help="0 for any free one (default: %(default)s)")
    parser.add_argument(
        "--extraction-delay",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="how long the facts that beliefs are built from lag behind the writes",
    )
    parser.add_argument(
        "--knob",
        dest="knobs",
        type=_knob,
        action="append",
        default=[],
        metavar="NAME=JSON",
        help="turn any other knob of tinymemory.testing.Knobs, e.g. rate_limit_per_minute=300",
    )
    return parser


def _knob(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    if name not in {field.name for field in fields(Knobs)}:
        raise argparse.ArgumentTypeError(f"there is no knob {name}")
    try:
        return name, json.loads(value)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{name}: {value} is not JSON") from error


def _stop_signal() -> asyncio.Event:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        # Windows' loops take no handlers; there Ctrl-C arrives as KeyboardInterrupt.
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, stopped.set)
    return stopped
