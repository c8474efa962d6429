"""`tinymemory context` prints the document of a tenant, or of one agent."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tinymemory import Learning, MemoryMeta, Namespace, SqliteEngine
from tinymemory.cli import build_app


@pytest.fixture
async def memory(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TINYMEMORY_ENGINE", "sqlite")
    monkeypatch.setenv("TINYMEMORY_DATA_DIR", str(data_dir))
    async with SqliteEngine(data_dir / "memory.db") as engine:
        for at in ("team:acme", "team:acme/agent:writer", "team:acme/agent:reader", "team:other"):
            meta = MemoryMeta(namespace=Namespace.parse(at))
            await engine.store(Learning(text=f"learnt at {at.rpartition(':')[2]}", meta=meta))


def run(*options: str) -> tuple[int, str]:
    result = CliRunner().invoke(build_app(), ["context", *options])
    return result.exit_code, result.output


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (("--root", "team:acme"), {"acme", "writer", "reader"}),
        (("--root", "team:acme", "--agent", "writer"), {"acme", "writer"}),
        (("--root", "team:nobody"), set[str]()),
        ((), {"acme", "writer", "reader", "other"}),
    ],
)
def test_it_prints_what_the_reach_holds(options: tuple[str, ...], shown: set[str]) -> None:
    code, output = run(*options)

    assert code == 0
    names = ("acme", "writer", "reader", "other")
    assert {name for name in names if f"- learnt at {name}\n" in output} == shown
    assert output.startswith("---\ngenerated_at: ") == bool(shown)


@pytest.mark.usefixtures("memory")
def test_as_json_it_has_its_facts_beside_it() -> None:
    code, output = run("--root", "team:acme", "--agent", "writer", "--budget", "300", "--json")

    doc = json.loads(output)
    assert code == 0
    assert doc["engine"] == "sqlite"
    assert doc["tokens"] == -(-len(doc["markdown"]) // 4) <= 300


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("options", [("--root", "team"), ("--budget", "0"), ("--learnings", "-1")])
def test_a_malformed_option_is_a_usage_error(options: tuple[str, ...]) -> None:
    code, _ = run(*options)

    assert code == 2
