"""`tinymemory ingest` in a real terminal: what is seen of the files and of the jobs, and how it ends."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import Live
from terminal import Terminal

MakeLive = Callable[..., Live]


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    for number in range(6):
        (folder / f"note{number}.md").write_text(
            f"# Note {number}\n\nThe code of note {number} is x{number}.\n"
        )
    return folder


async def test_files_and_jobs_have_a_bar_each_and_ctrl_c_says_how_to_resume(
    live: MakeLive, notes: Path
) -> None:
    layer = live()
    arguments = ("ingest", str(notes), "--root", "team:acme", "--wait")

    # Nobody runs the jobs yet, so it waits.
    with Terminal(*arguments, env=layer.env) as cut_short:
        cut_short.wait_for("6/6")
        cut_short.wait_for("jobs")
        cut_short.press("c")
        code = cut_short.end()
    assert code == 130
    assert "the same command goes on where it was" in cut_short.text
    assert "Traceback" not in cut_short.text

    layer.programs.start_together(("worker",), ("beat",))
    with Terminal(*arguments, "--again", env=layer.env) as waited:
        code = waited.end()
    lines = waited.screen.splitlines()
    assert code == 0
    assert any(line.strip().startswith("files") or " files " in line for line in lines if "6/6" in line)
    (jobs,) = [line for line in lines if " jobs " in line]
    done, _, total = jobs.partition("/")
    assert done.split()[-1] == total.split()[0]
    assert "6 accepted" in waited.screen


async def test_a_broken_file_is_told_apart_and_the_exit_code_says_so(live: MakeLive, notes: Path) -> None:
    layer = live()
    (notes / "broken.pdf").write_bytes(b"%PDF-1.7 and no more")
    with Terminal("ingest", str(notes), "--root", "team:acme", columns=60, env=layer.env) as terminal:
        code = terminal.end()

    assert code == 1
    (bar,) = [line for line in terminal.screen.splitlines() if "7/7" in line]
    assert re.search(r" \d+/s +1 failed ", bar), bar
    assert "1 failed" in terminal.screen
    assert "6 accepted, 1 failed" in terminal.screen
    assert "broken.pdf" in terminal.screen.replace("\n", "").replace(" ", "")


async def test_parked_jobs_are_told_above_the_bars_which_go_on_below(live: MakeLive, notes: Path) -> None:
    layer = live(probe_interval=1.0, probe_cap=1.0)
    layer.stub.behave(error="InsufficientCreditsError", message="no credits", health="no credits")
    layer.programs.start_together(("worker",), ("beat",))
    with Terminal("ingest", str(notes), "--root", "team:acme", "--wait", env=layer.env) as waiting:
        waiting.wait_for("parked: 1 of the jobs")
        layer.stub.behave()
        code = waiting.end()

    assert code == 0
    lines = waiting.screen.splitlines()
    (told,) = [number for number, line in enumerate(lines) if line.startswith("parked: 1 of the jobs")]
    (jobs,) = [number for number, line in enumerate(lines) if " jobs " in line and "1/1" in line]
    assert told < jobs
    assert "6 accepted" in waiting.screen
