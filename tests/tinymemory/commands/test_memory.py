import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tinymemory.brain import Brain
from tinymemory.brain_input import BrainDocument
from tinymemory.cli import build_app
from tinymemory.config import MemoryConfig
from tinymemory.layout import MemoryLayout
from tinymemory.meta import MemoryMeta
from tinymemory.namespace import Namespace


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs commands on a store that holds two tenants' documents."""
    monkeypatch.setenv("TINYMEMORY_DATA_DIR", str(tmp_path))

    async def fill() -> None:
        async with MemoryConfig.from_env().build() as engine:
            for root, answer in (("team:acme", "blue"), ("team:beta", "green")):
                brain = Brain(engine, MemoryLayout(Namespace.parse(root)))
                await brain.ingest(
                    BrainDocument(
                        "pdf", f"The gate's code is {answer}.", meta=MemoryMeta(file_path="/keys/gate.pdf")
                    )
                )
                await brain.ingest(BrainDocument("markdown", f"The {answer} boat leaves at nine."))

    asyncio.run(fill())

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(build_app(), list(arguments))

    return run


def test_search_stays_within_its_root(run: Any) -> None:
    found = json.loads(run("search", "code of the gate", "--root", "team:acme", "--json").stdout)

    assert found
    assert all("green" not in hit["text"] for hit in found)
    assert "blue" in run("search", "code of the gate", "--root", "team:acme").stdout


def test_search_narrows_to_a_source(run: Any) -> None:
    found = json.loads(
        run("search", "gate boat", "--root", "team:acme", "--source", "markdown", "--json").stdout
    )

    assert [hit["text"] for hit in found] == ["The blue boat leaves at nine."]


def test_finding_nothing_is_said_and_is_no_error(run: Any) -> None:
    result = run("search", "zebra", "--root", "team:nobody")

    assert (result.exit_code, result.stdout) == (0, "")
    assert "nothing found" in result.stderr


def test_recall_answers_with_citations(run: Any) -> None:
    answer = json.loads(run("recall", "What is the gate's code?", "--root", "team:beta", "--json").stdout)

    assert "green" in answer["answer"]
    assert answer["citations"]


def test_forgetting_a_source_asks_and_then_removes_only_it(run: Any) -> None:
    unasked = run("forget", "--source", "pdf", "--root", "team:acme")
    assert unasked.exit_code == 2
    assert "1 documents" in unasked.stderr

    done = run("forget", "--source", "pdf", "--root", "team:acme", "--yes", "--json")

    assert json.loads(done.stdout) == {"forgotten": 1}
    assert json.loads(run("search", "gate", "--root", "team:acme", "--source", "pdf", "--json").stdout) == []
    assert json.loads(run("search", "gate", "--root", "team:beta", "--source", "pdf", "--json").stdout)


def test_forgetting_a_file_removes_what_came_from_it(run: Any) -> None:
    assert json.loads(run("forget", "--file", "/keys", "--root", "team:acme", "--yes", "--json").stdout) == {
        "forgotten": 1
    }


@pytest.mark.parametrize("arguments", [(), ("some-id", "--source", "pdf")])
def test_forgetting_needs_one_way_to_choose(run: Any, arguments: tuple[str, ...]) -> None:
    assert run("forget", *arguments, "--yes").exit_code == 2


def test_a_blank_query_is_refused(run: Any) -> None:
    result = run("search", " ")

    assert result.exit_code == 2
    assert "`query` is blank" in result.stderr
