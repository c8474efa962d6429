"""The page a host author starts from: its code runs and its commands exist."""

import ast
import inspect
import logging
import re
from pathlib import Path
from types import CodeType
from typing import Any, cast

import pytest
from redis.asyncio import Redis
from typer.testing import CliRunner

from tinymemory import AgentMemory, IngestBrain
from tinymemory.cli import build_app
from workers import MemoryJobs, job_key
from workers.testing import RedisServer

PAGE = Path(__file__).parents[2] / "docs" / "start.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def compiled(source: str) -> CodeType:
    return compile(source, PAGE.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


class Model:
    """Answers each message, and keeps what it was shown."""

    def __init__(self) -> None:
        self.packs: list[str] = []

    async def reply(self, pack: str, user_text: str) -> str:
        self.packs.append(pack)
        return f"You asked: {user_text}"


@pytest.fixture
async def run(
    redis: Redis, redis_server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """All the page's Python, run from the top in an empty folder; what it left behind by name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TINYMEMORY_REDIS_URL", redis_server.url)
    (tmp_path / "refunds.md").write_text("# Refunds\n\nRefunds take five days.\n", encoding="utf-8")
    names: dict[str, Any] = {"model": Model()}
    for block in blocks("python"):
        running: Any = eval(compiled(block), names)
        if inspect.isawaitable(running):
            await running
    await names["jobs"].aclose()
    await names["engine"].aclose()
    return names


async def test_the_code_of_the_page_runs_and_remembers(
    run: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert "Hi, Maria Huber here" not in run["model"].packs[0]
    assert run["initial"].markdown == ""
    assert "Maria Huber" in run["carried"].markdown
    assert run["report"].jobs == [run["memory"].history_build()]
    assert any("five days" in hit["text"] for hit in run["found"]["hits"])
    assert run["pack"].markdown.startswith("# What I know\n")


async def test_the_jobs_of_the_page_are_owed(run: dict[str, Any]) -> None:
    jobs, memory = cast("MemoryJobs", run["jobs"]), cast("AgentMemory", run["memory"])
    owed = [memory.history_build(), memory.brain().build("notion"), IngestBrain([run["policy_page"]])]

    async with jobs:
        states = [
            (await jobs.status(job_key(memory.layout.root, "default", job))).state.value for job in owed
        ]

    assert states == ["waiting", "waiting", "waiting"]


@pytest.mark.parametrize(
    "command",
    [line for block in blocks("console") for line in block.splitlines() if line.startswith("tinymemory ")],
)
def test_the_commands_of_the_page_exist(command: str) -> None:
    arguments = command.split()[1:]

    result = CliRunner().invoke(build_app(), [*arguments, "--help"])

    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)#]+)\)", PAGE.read_text(encoding="utf-8")))
def test_the_links_of_the_page_lead_somewhere(link: str) -> None:
    assert (PAGE.parent / link).is_file()
