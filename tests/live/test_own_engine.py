"""The engine a reader may copy keeps every promise, and workers run on it by its factory."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from harness import SUPPORT, Live, build, ingest

from workers.ledger import JobState
from workers.ledger.outcomes import Outcome

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_it_passes_every_check(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        str(EXAMPLES / "own_engine.py"),
    ]
    checked = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert "16 passed" in checked.stdout, checked.stdout


async def test_workers_run_ingests_on_it_and_note_builds_as_skipped(
    live: Callable[..., Live], tmp_path: Path
) -> None:
    layer = live(engine_factory="own_engine:make")
    notebooks = tmp_path / "notebooks"

    with layer.programs as programs:
        programs.start("worker", PYTHONPATH=f"{SUPPORT}:{EXAMPLES}", NOTEBOOKS=str(notebooks))
        stored = await layer.one(ingest("Refunds"), root="team:acme")
        built = await layer.one(build("team:acme"), root="team:acme")
        statuses = await layer.wait_over(stored.key, built.key)

    assert [status.state for status in statuses] == [JobState.DONE] * 2
    assert "something to keep Refunds" in (notebooks / "team-acme.jsonl").read_text()
    assert [run.outcome for run in await layer.history(built.key)] == [Outcome.SKIPPED]
