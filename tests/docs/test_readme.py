"""The first page: its code runs, its pages are there, its commands exist."""

import re
from pathlib import Path
from typing import Any

import pytest

from workers.testing import RedisServer

HERE = Path(__file__).parents[2]
README = (HERE / "README.md").read_text(encoding="utf-8")


async def test_the_code_runs_and_a_turn_is_remembered(
    redis: Any, redis_server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TINYMEMORY_REDIS_URL", redis_server.url)
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names: dict[str, Any] = {}

    async def model(pack: str, text: str) -> str:
        return f"I read {len(pack)} characters."

    exec(compile(code, "README.md", "exec"), names)
    await names["turn"]("thread-1", 0, "My name is Ada and I live in Turin.", model)
    remembered = await names["memory"].recall("Who lives in Turin?")
    owed = await names["jobs"].status(_build_key(names))
    await names["jobs"].aclose()
    await names["engine"].aclose()

    assert "Ada" in remembered.markdown
    assert owed.state.value == "waiting"


def _build_key(names: dict[str, Any]) -> str:
    from workers import job_key

    memory = names["memory"]
    return job_key(memory.layout.root, "default", memory.history_build())


def test_every_page_it_links_to_is_there() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (HERE / target).is_file(), target


def test_the_first_screen_says_what_it_is_and_shows_the_two_commands() -> None:
    screen = "\n".join(README.splitlines()[:40])

    assert "long-term memory" in screen
    assert "make demo" in screen
    assert "make test" in screen
