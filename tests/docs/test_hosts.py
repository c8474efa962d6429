"""The page for host authors: its code runs, its commands exist, its numbers and links are true."""

import ast
import inspect
import json
import re
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from tinymemory import MemoryTools, ReferenceEngine
from tinymemory.cli import build_app

PAGE = Path(__file__).parents[2] / "docs" / "hosts.md"
TEXT = PAGE.read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


async def test_the_code_of_the_page_runs() -> None:
    names: dict[str, Any] = {}
    for block in blocks("python"):
        code = compile(block, PAGE.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        running: Any = eval(code, names)
        if inspect.isawaitable(running):
            await running

    assert [spec.name for spec in names["auditor"].specs()][-1] == "memory_explore"
    assert len(names["messages"]) == 7


def test_the_options_of_its_commands_exist() -> None:
    for line in "".join(blocks("console")).splitlines():
        if line.startswith("tinymemory "):
            _, command, *options = line.split()
            told = CliRunner(env={"COLUMNS": "300"}).invoke(build_app(), [command, "--help"]).output
            assert all(option in told for option in options if option.startswith("--"))


def test_its_client_configuration_is_json() -> None:
    (block,) = blocks("json")

    assert json.loads(block)["mcpServers"]["memory"]["command"] == "tinymemory"


def test_its_links_lead_somewhere() -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", TEXT):
        assert (PAGE.parent / link).exists(), link


def test_the_size_of_the_specs_is_the_one_it_tells() -> None:
    specs = [spec.model_dump(mode="json") for spec in MemoryTools(ReferenceEngine()).specs()]

    assert f"{len(json.dumps(specs, separators=(',', ':'))):,} characters" in TEXT
