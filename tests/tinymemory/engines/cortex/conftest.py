"""A loopback server of either wire, and engines over it that do not dawdle."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tinymemory.engines.cortex import CortexEngine, Timing
from tinymemory.engines.cortex.surface import DIRECT, HOSTED, Surface
from tinymemory.testing import CortexServer, cortex_server

FAST = Timing(backoff=0.005, poll_gap=0.005, poll_gap_cap=0.02, visibility_budget=2.0, settle_budget=2.0)


@pytest.fixture(params=["direct", "hosted"])
def wire(request: pytest.FixtureRequest) -> str:
    """Each test runs on both wires, unless it parametrizes this itself."""
    return request.param


@pytest.fixture
def surface(wire: str) -> Surface:
    """What the wire calls its routes."""
    return HOSTED if wire == "hosted" else DIRECT


@pytest.fixture
def connect(wire: str) -> Callable[..., CortexEngine]:
    """Builds an engine on this wire: `connect(url, credential="key", timing=…, …)`."""
    make = CortexEngine.tinyhumans if wire == "hosted" else CortexEngine.direct

    def build(url: str, credential: Any = "key", timing: Timing = FAST, **options: Any) -> CortexEngine:
        return make(url, credential, timing=timing, **options)

    return build


@pytest.fixture
async def server(wire: str) -> AsyncIterator[CortexServer]:
    """A server whose clock only moves when it is put forward."""
    async with cortex_server(wire, clock="manual") as running:  # pyright: ignore[reportArgumentType]  # one of two literals
        yield running


@pytest.fixture
async def engine(server: CortexServer, connect: Callable[..., CortexEngine]) -> AsyncIterator[CortexEngine]:
    """An engine over the server."""
    async with connect(server.url) as running:
        yield running
