"""Both loopback servers on a clock that stands still, and an HTTP client for each."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

from tinymemory.testing import CortexServer, cortex_server

Json = dict[str, Any]
NOTES = "app:tinymemory/app:learnings"


def client_of(server: CortexServer) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=server.url, headers={"Authorization": "Bearer key"})


@pytest.fixture
async def direct() -> AsyncIterator[CortexServer]:
    async with cortex_server(wire="direct", clock="manual") as server:
        yield server


@pytest.fixture
async def hosted() -> AsyncIterator[CortexServer]:
    async with cortex_server(wire="hosted", clock="manual") as server:
        yield server


@pytest.fixture
async def cortex(direct: CortexServer) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(direct) as client:
        yield client


@pytest.fixture
async def backend(hosted: CortexServer) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(hosted) as client:
        yield client


@pytest.fixture
def event() -> Callable[..., Json]:
    """The body of an append: a text, and whatever the test changes of the rest."""

    def body(text: str = "prefers window seats", **changes: Any) -> Json:
        content = {"kind": "message", "role": changes.pop("role", "user"), "text": text}
        labels = changes.pop("labels", [])
        context = {"labels": labels, **changes.pop("context", {})}
        return {"scope": NOTES, "modality": "observation", "content": content, "context": context, **changes}

    return body
