"""The MCP server, by the protocol's own client: in memory, over stdio and over HTTP as real processes."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp_types import TextContent
from typer.testing import CliRunner

from tinymemory import GetRequest, MemoryTools, RecallAnswer, RecallRequest, ReferenceEngine, SqliteEngine
from tinymemory.cli import build_app
from tinymemory.tools.mcp import mcp_server

ALL = [
    "memory_recall",
    "memory_fetch",
    "memory_list",
    "memory_get",
    "memory_explore",
    "memory_store",
    "memory_forget",
]


async def call(client: Client, name: str, arguments: dict[str, Any] | None = None) -> tuple[str, bool]:
    result = await client.call_tool(name, arguments)
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text, result.is_error


async def test_the_tools_are_offered_with_their_schemas_and_hints(tools: MemoryTools) -> None:
    async with Client(mcp_server(tools)) as client:
        listed = (await client.list_tools()).tools

    assert [(tool.name, tool.description, tool.input_schema) for tool in listed] == [
        (spec.name, spec.description, spec.parameters) for spec in tools.specs()
    ]
    hints = {tool.name: tool.annotations for tool in listed}
    assert [name for name, hint in hints.items() if hint and hint.read_only_hint] == ALL[:5]
    assert [name for name, hint in hints.items() if hint and hint.destructive_hint] == ["memory_forget"]


async def test_a_result_is_json_text_and_an_error_is_a_result_the_model_sees(tools: MemoryTools) -> None:
    async with Client(mcp_server(tools)) as client:
        stored, failed = await call(client, "memory_store", {"learning": {"text": "likes windows"}})
        refused, refusal = await call(client, "memory_list", {"namespace": "team:other"})
        unknown, no_tool = await call(client, "memory_wipe", {})

    assert (json.loads(stored)["replayed"], failed) == (False, False)
    assert (refused, refusal) == (
        "error: invalid request: memory_list: `namespace` is no argument: the host fixes it",
        True,
    )
    assert no_tool
    assert "there is no tool `memory_wipe`" in unknown


class Broken(ReferenceEngine):
    async def recall(self, request: RecallRequest) -> RecallAnswer:
        raise RuntimeError("a secret of the engine")


async def test_a_bug_of_the_engine_is_an_error_without_its_text_and_the_session_goes_on() -> None:
    async with Client(mcp_server(MemoryTools(Broken()))) as client:
        text, failed = await call(client, "memory_recall", {"question": "x"})
        listed, _ = await call(client, "memory_list")

    assert (text, failed) == ("error: an unexpected RuntimeError", True)
    assert listed == '{"items":[]}'


async def test_a_call_without_arguments_reads_as_none(tools: MemoryTools) -> None:
    async with Client(mcp_server(tools)) as client:
        assert await call(client, "memory_list") == ('{"items":[]}', False)


# As processes


def environment(data_dir: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "TINYMEMORY_ENGINE": "sqlite", "TINYMEMORY_DATA_DIR": str(data_dir), **more}


def stdio(data_dir: Path, *options: str) -> StdioServerParameters:
    arguments = ["-m", "tinymemory", "mcp", "--root", "team:acme", *options]
    return StdioServerParameters(command=sys.executable, args=arguments, env=environment(data_dir))


async def test_over_stdio_an_agent_stores_at_its_node_and_another_process_reads_it(data_dir: Path) -> None:
    async with Client(stdio(data_dir, "--agent", "writer")) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ALL
        stored, _ = await call(client, "memory_store", {"learning": {"text": "likes window seats"}})

    async with SqliteEngine(data_dir / "memory.db") as engine:
        (hit,) = await engine.get(GetRequest(ids=(json.loads(stored)["id"],)))
        assert str(hit.meta.namespace) == "team:acme/agent:writer"

    async with Client(stdio(data_dir, "--agent", "reader", "--read-only")) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ALL[:5]
        sibling, _ = await call(client, "memory_list")
    assert sibling == '{"items":[]}'

    async with Client(stdio(data_dir)) as client:
        whole_team, _ = await call(client, "memory_list")
    assert "likes window seats" in whole_team


@contextmanager
def serving(data_dir: Path, *options: str, **more: str) -> Generator[str]:
    """The server as a process on a free port; its URL."""
    command = [sys.executable, "-m", "tinymemory", "mcp", "--http", "--port", "0", "--root", "team:acme"]
    with subprocess.Popen(
        [*command, *options], env=environment(data_dir, **more), stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            yield process.stderr.readline().removeprefix("listening on ").strip()
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=30) == 0


async def test_over_http_two_clients_share_one_memory(data_dir: Path) -> None:
    with serving(data_dir, "--agent", "writer") as url:
        async with Client(url) as one, Client(url) as two:
            await call(one, "memory_store", {"learning": {"text": "likes window seats"}})
            found, _ = await call(two, "memory_fetch", {"query": "window seats"})

    assert url.startswith("http://127.0.0.1:")
    assert "likes window seats" in found


async def test_over_http_a_stranger_without_the_token_is_kept_out(data_dir: Path) -> None:
    with serving(data_dir, TINYMEMORY_MCP_TOKEN="open sesame") as url:
        async with httpx.AsyncClient() as stranger:
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
            for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "open sesame"}):
                answer = await stranger.post(url, json=body, headers=headers)
                assert (answer.status_code, answer.content) == (401, b"")
            known = await stranger.post(url, json=body, headers={"Authorization": "Bearer open sesame"})
        assert known.status_code != 401


def run(*options: str) -> tuple[int, str]:
    result = CliRunner(env={"TINYMEMORY_MCP_TOKEN": None}).invoke(build_app(), ["mcp", *options])
    return result.exit_code, result.output


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--root", "team"), 2, "segment `team`"),
        (("--root", "team:acme", "--agent", " "), 2, "`agent` is blank"),
        (("--root", "team:acme", "--zone", "Europe/Atlantis"), 2, "no IANA time zone"),
        (("--http", "--host", "0.0.0.0"), 78, "set TINYMEMORY_MCP_TOKEN"),
    ],
)
def test_what_cannot_be_served_is_said_at_once(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], code: int, message: str
) -> None:
    monkeypatch.setenv("TINYMEMORY_DATA_DIR", str(data_dir))

    status, output = run(*options)

    assert (status, message in output) == (code, True), output


def test_a_busy_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        status, output = run("--http", "--port", str(port))

    assert status == 78
    assert f"cannot listen on 127.0.0.1:{port}" in output
