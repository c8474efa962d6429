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


def test_a_file_is_forgotten_by_the_relative_path_it_was_ingested_by(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")

    asked = run("forget", "--file", "keys/../keys/gate.pdf", "--root", "team:acme")
    assert asked.exit_code == 2
    assert "1 documents of /keys/gate.pdf" in asked.stderr
    assert run("forget", "--file", "keys/gate.pdf", "--root", "team:acme", "--yes").stdout == "forgot 1\n"


def test_a_file_that_a_host_filed_under_a_relative_path_is_forgotten_by_that(
    run: Any, tmp_path: Path
) -> None:
    async def fill() -> None:
        async with MemoryConfig.from_env().build() as engine:
            brain = Brain(engine, MemoryLayout(Namespace.parse("team:acme")))
            await brain.ingest(BrainDocument("code", "gate = 7", meta=MemoryMeta(file_path="src/gate.py")))

    asyncio.run(fill())

    assert run("forget", "--file", "src", "--root", "team:acme", "--yes").stdout == "forgot 1\n"


@pytest.mark.parametrize(
    "chosen", [("--file", "keys/old.pdf"), ("--file", "/keys/ga"), ("--source", "email"), ("213850864f7a",)]
)
@pytest.mark.parametrize("form", [(), ("--yes",), ("--yes", "--json")])
def test_what_matches_nothing_is_an_error_and_not_a_success(
    run: Any, chosen: tuple[str, ...], form: tuple[str, ...]
) -> None:
    result = run("forget", *chosen, "--root", "team:acme", *form)

    assert (result.exit_code, result.stdout) == (4, "")
    assert chosen[-1] in result.stderr or "that source" in result.stderr
    assert "nothing was forgotten" in result.stderr


def test_an_item_is_forgotten_by_the_id_that_search_shows(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    (heading, *_) = run("search", "gate", "--root", "team:acme", "--source", "pdf").stdout.splitlines()
    shown = heading.split()[-1]

    unknown = run("forget", shown, "ffff", "--yes")
    assert (unknown.exit_code, "`ffff`" in unknown.stderr, shown in unknown.stderr) == (4, True, False)
    assert "1 items would be forgotten" in run("forget", shown).stderr
    assert run("forget", shown, "--yes").stdout == "forgot 1\n"


def test_a_citation_is_shown_by_its_whole_id(run: Any) -> None:
    question = ("recall", "What is the gate's code?", "--root", "team:beta")
    cited = json.loads(run(*question, "--json").stdout)["citations"][0]["id"]

    assert f"[{cited}]" in run(*question).stdout


@pytest.mark.parametrize("arguments", [(), ("some-id", "--source", "pdf")])
def test_forgetting_needs_one_way_to_choose(run: Any, arguments: tuple[str, ...]) -> None:
    assert run("forget", *arguments, "--yes").exit_code == 2


def test_a_blank_query_is_refused(run: Any) -> None:
    result = run("search", " ")

    assert result.exit_code == 2
    assert "`query` is blank" in result.stderr
