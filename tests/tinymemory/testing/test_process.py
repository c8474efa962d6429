"""The servers as a process of their own."""

import asyncio
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

HEADERS = {"Authorization": "Bearer any"}
NOTES = "app:tinymemory/app:learnings"


@asynccontextmanager
async def running(*arguments: str) -> AsyncGenerator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tinymemory.testing",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def url_of(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    line = (await asyncio.wait_for(process.stdout.readline(), 60)).decode()
    return next(word.rstrip(",") for word in line.split() if word.startswith("http://"))


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
async def test_it_says_its_url_serves_and_stops_cleanly(stop: signal.Signals) -> None:
    body: dict[str, Any] = {"scope": NOTES, "content": {"text": "window seats"}}
    async with running("--port", "0", "--extraction-delay", "3600") as process:
        url = await url_of(process)
        async with httpx.AsyncClient(base_url=url, headers=HEADERS) as http:
            appended = await http.post("/v1/experience", json=body)
            built = await http.post("/v1/beliefs/build", json={"scope": NOTES})

            process.send_signal(stop)
            code = await asyncio.wait_for(process.wait(), 60)

    assert appended.status_code == 202
    assert built.json()["reasons"] == {"facts_pending_extraction": 1}
    assert code == 0


async def test_any_knob_can_be_turned_on_the_command_line() -> None:
    async with running("--wire", "hosted", "--port", "0", "--knob", 'tenant_prefix="org:me"') as process:
        url = await url_of(process)
        async with httpx.AsyncClient(base_url=url, headers=HEADERS) as http:
            await http.post("/memory/experience", json={"scope": NOTES, "content": {"text": "hi"}})
            scopes = (await http.get("/memory/scopes")).json()

    assert scopes["data"] == {"scopes": [f"org:me/{NOTES}"]}


async def test_a_busy_port_is_named() -> None:
    async with running("--port", "0") as first:
        port = (await url_of(first)).rpartition(":")[2]
        async with running("--port", port) as second:
            _, error = await asyncio.wait_for(second.communicate(), 60)

    assert second.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in error.decode()


@pytest.mark.parametrize("knob", ["no_such=1", "accept_token=key", "accept_token"])
async def test_an_unknown_or_unreadable_knob_is_refused(knob: str) -> None:
    async with running("--port", "0", "--knob", knob) as process:
        _, error = await asyncio.wait_for(process.communicate(), 60)

    assert process.returncode == 2
    assert knob.partition("=")[0] in error.decode()
