"""`tinymemory engines`: what there is, what is chosen, and which key is missing."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tinymemory.cli import build_app
from tinymemory.exit import ExitCode

KEY = "sk-very-secret"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*arguments: str, **environ: str | None) -> Result:
    base = {
        "TINYMEMORY_ENGINE": None,
        "TINYMEMORY_CORTEXDB_API_KEY": None,
        "TINYMEMORY_CORTEXDB_ENDPOINT": None,
    }
    return CliRunner().invoke(build_app(), ["engines", *arguments], env={**base, **environ})


def rows(result: Result) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in json.loads(result.stdout)}


def test_every_engine_is_listed_with_what_it_needs() -> None:
    result = run()

    assert result.exit_code == ExitCode.OK
    lines = {line.removeprefix("*").split()[0]: line for line in result.stdout.splitlines()[1:]}
    assert list(lines) == ["reference", "sqlite", "cortexdb", "tinyhumans"]
    assert lines["sqlite"].startswith("*")
    assert "TINYMEMORY_CORTEXDB_API_KEY (not set)" in lines["cortexdb"]
    assert "https://api.tinyhumans.ai" in lines["tinyhumans"]


def test_a_narrow_terminal_gets_a_block_an_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tinymemory.commands.engines.WIDE", 1000)

    lines = [" ".join(line.split()) for line in run().stdout.splitlines()]

    assert lines[0] == "engine reference"
    assert "engine sqlite *" in lines
    assert "key TINYMEMORY_CORTEXDB_API_KEY (not set)" in lines


def test_json_is_an_array_of_descriptors_with_the_choice_and_the_key() -> None:
    found = rows(
        run(
            "--json",
            TINYMEMORY_ENGINE="cortexdb",
            TINYMEMORY_CORTEXDB_API_KEY=KEY,
            TINYMEMORY_CORTEXDB_ENDPOINT="https://cortex.example.com",
        )
    )

    assert {id_: row["chosen"] for id_, row in found.items()} == {
        "reference": False,
        "sqlite": False,
        "cortexdb": True,
        "tinyhumans": False,
    }
    assert found["cortexdb"]["endpoint"] == "https://cortex.example.com"
    assert found["cortexdb"]["key_env"] == "TINYMEMORY_CORTEXDB_API_KEY"
    assert found["cortexdb"]["key_set"] is True
    assert found["cortexdb"]["fetch_modes"] == ["hybrid"]
    assert found["tinyhumans"]["consolidation"] == "scheduled"
    assert found["sqlite"]["default_endpoint"] is None


def test_no_key_is_ever_printed() -> None:
    environ = {"TINYMEMORY_CORTEXDB_API_KEY": KEY}

    assert KEY not in run(**environ).output
    assert KEY not in run("--json", **environ).output


def test_a_choice_of_no_engine_is_an_error_that_still_lists_them() -> None:
    result = run(TINYMEMORY_ENGINE="mongo")

    assert result.exit_code == ExitCode.CONFIG
    assert "there is no engine `mongo`" in result.stderr
    assert "cortexdb" in result.stdout
