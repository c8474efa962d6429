"""`tinymemory cortex-local`: a CortexDB for development, as a process."""

import asyncio
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx

NOTES = "app:tinymemory/app:learnings"


@asynccontextmanager
async def running(*arguments: str) -> AsyncGenerator[asyncio.subprocess.Process]:
    pipe = asyncio.subprocess.PIPE
    command = (sys.executable, "-m", "tinymemory", "cortex-local", *arguments)
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def welcome(process: asyncio.subprocess.Process) -> list[str]:
    assert process.stdout is not None
    line = await asyncio.wait_for(process.stdout.readline(), 60)
    return line.decode().replace(",", "").split()


async def test_it_says_where_it_listens_and_what_it_is_and_stops_on_a_signal() -> None:
    async with running("--port", "0", "--extraction-delay", "2.5") as process:
        words = await welcome(process)
        headers = {"Authorization": "Bearer any"}
        async with httpx.AsyncClient(base_url=words[3], headers=headers) as http:
            health = await http.get("/v1/admin/health")
        process.send_signal(signal.SIGTERM)
        code = await asyncio.wait_for(process.wait(), 60)

    assert words[:3] == ["cortexdb", "(direct)", "on"]
    assert " ".join(words[4:]) == "in memory facts 2.5 s behind the writes"
    assert health.json() == {"status": "healthy"}
    assert code == 0


async def test_it_speaks_the_hosted_wire_too() -> None:
    async with running("--port", "0", "--hosted") as process:
        url = (await welcome(process))[3]
        async with httpx.AsyncClient(base_url=url, headers={"Authorization": "Bearer any"}) as http:
            scopes = await http.get("/memory/scopes", params={"prefix": NOTES})

    assert scopes.json() == {"success": True, "data": {"scopes": []}}


async def test_a_busy_port_is_a_configuration_error_that_names_it() -> None:
    async with running("--port", "0") as first:
        port = (await welcome(first))[3].rpartition(":")[2]
        async with running("--port", port) as second:
            _, error = await asyncio.wait_for(second.communicate(), 60)

    assert second.returncode == 78
    assert f"cannot listen on 127.0.0.1:{port}" in error.decode()
