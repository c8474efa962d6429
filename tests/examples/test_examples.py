"""The examples run as they are, offline, as a host author would start them."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from tinymemory import ItemKind, ListRequest, MetaFilter, SqliteEngine
from workers.testing import RedisServer

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, *, said: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        input=said,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture
def settings(redis: Redis, redis_server: RedisServer, data_dir: Path) -> dict[str, str]:
    return {"TINYMEMORY_REDIS_URL": redis_server.url, "TINYMEMORY_DATA_DIR": str(data_dir)}


async def test_the_agent_loop_remembers_compacts_and_hands_its_builds_over(
    settings: dict[str, str], redis: Redis, data_dir: Path
) -> None:
    done = run("agent_loop.py", **settings)

    lines = done.stdout.splitlines()
    replies = [line.removeprefix("agent: ") for line in lines if line.startswith("agent: ")]
    assert replies[:2] == ["I do not know yet.", "Noted."]
    assert set(replies[2:]) == {"Remember: refunds go to my Visa card."}
    assert "dropped 4 turns, carrying over" in done.stderr
    assert "unavailable" not in done.stderr
    assert len(await redis.keys("*:job:*")) == 1  # pyright: ignore[reportUnknownMemberType]  # redis-py leaves **kwargs untyped
    async with SqliteEngine(data_dir / "memory.db") as engine:
        turns = await engine.list(ListRequest(filter=MetaFilter(kinds=(ItemKind.CONVERSATION,)), limit=100))
        learnt = await engine.list(ListRequest(filter=MetaFilter(kinds=(ItemKind.LEARNING,))))
    assert sorted(hit.meta.turns.first for hit in turns.items if hit.meta.turns) == list(range(12))
    assert [str(hit.meta.namespace) for hit in learnt.items] == ["team:acme/agent:support-01"]


def test_the_agent_loop_goes_on_without_its_job_layer(data_dir: Path) -> None:
    away = {"TINYMEMORY_REDIS_URL": "redis://127.0.0.1:1/0", "TINYMEMORY_DATA_DIR": str(data_dir)}

    done = run("agent_loop.py", **away)

    assert done.stdout.count("agent: ") == 6
    assert "after turn 1: unavailable" in done.stderr


@contextmanager
def completions() -> Generator[tuple[str, list[dict[str, Any]]]]:
    """A Chat Completions endpoint that calls a tool once and then answers; its URL and what it was sent."""
    sent: list[dict[str, Any]] = []
    call = {"id": "c1", "type": "function", "function": {"name": "memory_list", "arguments": "{}"}}
    messages: list[dict[str, Any]] = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "assistant", "content": "Hello Maria."},
    ]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # the base class's name
            sent.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            body = json.dumps({"choices": [{"message": messages[len(sent) - 1]}]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base class's name
            """Stay quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", sent
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_the_agent_loop_talks_to_any_openai_compatible_endpoint(settings: dict[str, str]) -> None:
    with completions() as (url, sent):
        done = run(
            "agent_loop.py", said="Hi, I am Maria.\n", OPENAI_BASE_URL=url, OPENAI_MODEL="any", **settings
        )

    assert done.stdout == "user: Hi, I am Maria.\nagent: Hello Maria.\n"
    first, second = sent
    assert first["model"] == "any"
    assert [tool["function"]["name"] for tool in first["tools"]][:2] == ["memory_recall", "memory_fetch"]
    answer = second["messages"][-1]
    assert (answer["role"], answer["tool_call_id"]) == ("tool", "c1")
    assert [hit["text"] for hit in json.loads(answer["content"])["items"]] == ["user: Hi, I am Maria."]


def test_the_agent_loop_is_short_enough_to_copy() -> None:
    assert len((EXAMPLES / "agent_loop.py").read_text(encoding="utf-8").splitlines()) < 120


@pytest.mark.parametrize("name", ["langgraph_agent.py", "pydantic_ai_agent.py"])
def test_the_tools_work_inside_a_runtime_and_a_refusal_is_text_for_its_model(name: str) -> None:
    lines = run(name).stdout.splitlines()

    assert any('"replayed":false' in line for line in lines)
    assert any("`namespace` is no argument: the host fixes it" in line for line in lines)
    assert any('"text":"Maria wants refunds to her card."' in line for line in lines)
    assert lines[-1].endswith("To her card.")
