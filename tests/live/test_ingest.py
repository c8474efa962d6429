"""`tinymemory ingest` into the embedded engine through a real worker: what is stored, and what of it goes."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from harness import Live

from tinymemory.engines.sqlite import SqliteEngine
from tinymemory.query import ListRequest

MakeLive = Callable[..., Live]


class Desk:
    """A folder of notes, the command, and the store behind it."""

    def __init__(self, live: Live, folder: Path) -> None:
        self.live = live
        self.folder = folder
        self.command = [sys.executable, "-m", "tinymemory", "ingest", str(folder), "--root", "team:acme"]
        self.env = {**os.environ, **live.env}

    def work(self) -> None:
        """Start a worker and a beat."""
        self.live.programs.start_together(("worker",), ("beat",))

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path

    def ingest(self, *options: str, code: int = 0) -> Any:
        done = subprocess.run(
            [*self.command, "--json", *options],
            env=self.env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout)

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Another command."""
        return subprocess.run(
            [*self.command[:3], *arguments],
            env=self.env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    @contextmanager
    def started(self, *options: str) -> "Generator[subprocess.Popen[str]]":
        """The command while it runs; it is killed if a test leaves it."""
        with subprocess.Popen(
            [*self.command, *options],
            env=self.env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as started:
            try:
                yield started
            finally:
                started.kill()

    async def stored(self) -> list[str]:
        """The first word of each document, sorted."""
        async with SqliteEngine(self.live.settings.data_dir / "memory.db") as engine:
            page = await engine.list(ListRequest(limit=1000))
        return sorted(hit.text.splitlines()[-1].split()[0] for hit in page.items)

    async def wait_for(self, *words: str) -> None:
        deadline = time.monotonic() + 60
        while (stored := await self.stored()) != sorted(words):
            assert time.monotonic() < deadline, stored
            await asyncio.sleep(0.2)


@pytest.fixture
def desk(live: MakeLive, tmp_path: Path) -> Desk:
    folder = tmp_path / "notes"
    folder.mkdir()
    return Desk(live(engine_factory=None, engine="sqlite"), folder)


async def test_r66_a_changed_file_is_replaced_and_every_report_says_so(desk: Desk) -> None:
    note = desk.write("note.md", "first version")
    desk.write("other.md", "another note")
    desk.work()
    desk.ingest("--wait")
    desk.write("note.md", "second version, and longer")

    tried = desk.ingest("--dry-run")
    unchanged_by_the_try = await desk.stored()
    sent = desk.ingest("--wait")

    assert {one["path"]: one["replaces"] for one in tried["converted"]} == {
        str(note): True,
        str(desk.folder / "other.md"): False,
    }
    assert unchanged_by_the_try == ["another", "first"]
    assert (sent["accepted"], sent["unchanged"]) == (1, 1)
    assert (sent["replaced"], sent["outdated"]) == ([str(note)], [])
    assert await desk.stored() == ["another", "second"]


async def test_r66_an_old_document_stays_until_a_worker_has_stored_the_new_one(desk: Desk) -> None:
    note = desk.write("note.md", "first version")
    desk.work()
    desk.ingest("--wait")
    desk.live.programs.__exit__(None, None, None)

    desk.write("note.md", "second version, and longer")
    nobody_works = desk.ingest()
    meanwhile = await desk.stored()
    desk.work()
    await desk.wait_for("first", "second")
    nothing_new = desk.ingest()

    assert (nobody_works["replaced"], nobody_works["outdated"]) == ([], [str(note)])
    assert meanwhile == ["first"]
    assert (nothing_new["unchanged"], nothing_new["replaced"]) == (1, [str(note)])
    assert await desk.stored() == ["second"]


async def test_a_file_changed_back_with_its_old_time_is_sent_again(desk: Desk) -> None:
    note = desk.write("note.md", "first version")
    shutil.copy2(note, desk.folder.parent / "kept.md")
    desk.work()
    desk.ingest("--wait")
    desk.write("note.md", "second version, and longer")
    desk.ingest("--wait")

    shutil.copy2(desk.folder.parent / "kept.md", note)
    back = desk.ingest("--wait")

    assert (back["accepted"], back["replaced"]) == (1, [str(note)])
    assert await desk.stored() == ["first"]


async def test_what_was_kept_with_its_secrets_is_replaced_by_what_is_scrubbed(desk: Desk) -> None:
    desk.write("note.md", "ann@example.com wrote")
    desk.work()
    desk.ingest("--wait")

    desk.ingest("--wait", "--scrub")

    assert await desk.stored() == ["[email]"]


async def test_a_deleted_and_a_renamed_file_keep_their_documents(desk: Desk) -> None:
    desk.write("gone.md", "gone by now")
    moved = desk.write("old-name.md", "moved elsewhere")
    desk.work()
    desk.ingest("--wait")

    (desk.folder / "gone.md").unlink()
    moved.rename(desk.folder / "new-name.md")
    sent = desk.ingest("--wait")

    assert (sent["accepted"], sent["replaced"]) == (1, [])
    assert await desk.stored() == ["gone", "moved", "moved"]


async def test_a_changed_file_in_a_watched_folder_is_replaced_while_it_is_watched(desk: Desk) -> None:
    desk.write("note.md", "first version")
    desk.work()
    with desk.started("--watch") as watching:
        assert watching.stderr is not None
        assert "following" in watching.stderr.readline()
        await desk.wait_for("first")

        desk.write("note.md", "changed while it is watched")
        await desk.wait_for("changed")
        watching.send_signal(signal.SIGINT)

        assert watching.wait(60) == 130


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
async def test_an_ingest_that_is_cut_short_and_repeated_stores_nothing_twice(
    desk: Desk, how: signal.Signals
) -> None:
    words = [f"word{number}" for number in range(400)]
    for word in words:
        desk.write(f"{word}.md", f"{word} is all there is to say\n")
    desk.work()
    with desk.started() as first:
        while not await desk.stored() and first.poll() is None:
            await asyncio.sleep(0.01)
        first.send_signal(how)
        first.wait(60)

    again = desk.ingest("--wait")

    assert again["accepted"] + again["unchanged"] == len(words)
    await desk.wait_for(*words)


@pytest.fixture
def refused(live: MakeLive, tmp_path: Path) -> Desk:
    """A note that the engine refuses."""
    folder = tmp_path / "notes"
    folder.mkdir()
    desk = Desk(live(), folder)
    desk.write("note.md", "# Refused\n\nby the engine")
    desk.live.stub.behave("Refused", error="ConflictError")
    return desk


async def test_r56_an_ingest_that_a_worker_gives_up_fails_the_command_that_waits_for_it(
    refused: Desk,
) -> None:
    refused.work()

    unaware = refused.ingest()
    waited = refused.ingest("--wait", "--again", code=1)

    assert unaware["accepted"] == 1
    assert waited["jobs_failed"] == [{"key": waited["jobs"][0], "state": "dead"}]


async def test_r56_an_ingest_that_was_given_up_fails_every_later_run_until_it_is_retried(
    refused: Desk,
) -> None:
    refused.work()
    (key,) = refused.ingest()["jobs"]
    await refused.live.wait_over(key)

    later = refused.ingest(code=1)
    table = refused.run("ingest", str(refused.folder), "--root", "team:acme")
    refused.live.stub.behave("Refused")
    retried = refused.run("jobs", "retry", key)
    await refused.live.wait_over(key)
    afterwards = refused.ingest()

    (failed,) = later["failed"]
    assert (later["unchanged"], failed["path"]) == (0, str(refused.folder / "note.md"))
    assert failed["reason"] == "dead"
    assert f"tinymemory jobs retry {key}" in failed["error"]
    assert "--again" in failed["error"]
    assert table.returncode == 1
    assert "note.md" in table.stdout
    assert f"tinymemory jobs retry {key}" in table.stdout
    assert retried.returncode == 0
    assert (afterwards["unchanged"], afterwards["failed"]) == (1, [])


async def test_an_ingest_that_was_cancelled_is_told_until_it_is_sent_again(desk: Desk) -> None:
    note = desk.write("note.md", "some words")
    (key,) = desk.ingest()["jobs"]
    desk.run("jobs", "drop", key, "--yes")

    (failed,) = desk.ingest(code=1)["failed"]
    desk.work()
    desk.ingest("--again", "--wait")

    assert (failed["path"], failed["reason"]) == (str(note), "cancelled")
    assert desk.ingest()["unchanged"] == 1
    assert await desk.stored() == ["some"]


async def test_who_waits_waits_for_what_an_earlier_run_sent(desk: Desk) -> None:
    desk.write("note.md", "some words")
    (key,) = desk.ingest()["jobs"]

    with desk.started("--wait") as waiting:
        desk.work()
        assert waiting.wait(60) == 0

    assert await desk.live.state(key) == "done"
    assert await desk.stored() == ["some"]
