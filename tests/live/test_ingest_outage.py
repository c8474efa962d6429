"""`tinymemory ingest --wait` while the engine behind it fails: what is told, how it ends, how it goes on."""

import asyncio
import json
import os
import re
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from harness import Live, until

from tinymemory.testing import CortexServer, cortex_server
from workers.ledger import JobState

MakeLive = Callable[..., Live]
# Three jobs: fewer failures in a row are no outage to a breaker.
NOTES = 101


class Desk:
    """A folder of notes, workers, and a CortexDB on loopback behind them."""

    def __init__(self, layer: Live, server: CortexServer, folder: Path) -> None:
        self.layer = layer
        self.server = server
        self.folder = folder

    @asynccontextmanager
    async def ingest(self, *options: str) -> "AsyncGenerator[asyncio.subprocess.Process]":
        """The command while it runs; it is killed if a test leaves it."""
        started = await asyncio.create_subprocess_exec(
            *(
                sys.executable,
                "-m",
                "tinymemory",
                "ingest",
                str(self.folder),
                "--root",
                "team:acme",
                *options,
            ),
            env={**os.environ, **self.layer.env},
            stdout=PIPE,
            stderr=PIPE,
        )
        try:
            yield started
        finally:
            if started.returncode is None:
                started.kill()
                await started.wait()

    async def states(self) -> list[JobState]:
        """Of every ingest that is owed or dead."""
        async with self.layer.ledger() as ledger:
            found = await ledger.jobs(states=list(JobState))
            return [job.state for job in found if job.type == "ingest_brain"]

    async def all_parked(self) -> bool:
        return await self.states() == [JobState.PARKED] * 3

    def stored(self) -> int:
        """How many documents."""
        return len(self.server.log.events("app:tinymemory/team:acme/source:markdown/app:documents"))


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    for number in range(NOTES):
        (folder / f"{number}.md").write_text(f"# {number}\n\nwords\n")
    return folder


@asynccontextmanager
async def desk(
    live: MakeLive, notes: Path, monkeypatch: pytest.MonkeyPatch, engine: str, **settings: float
) -> AsyncGenerator[Desk]:
    async with cortex_server("hosted" if engine == "tinyhumans" else "direct") as server:
        monkeypatch.setenv(f"TINYMEMORY_{engine.upper()}_ENDPOINT", server.url)
        monkeypatch.setenv(f"TINYMEMORY_{engine.upper()}_API_KEY", "key")
        yield Desk(live(engine_factory=None, engine=engine, **settings), server, notes)


@pytest.mark.parametrize(
    ("engine", "failure"),
    [("cortexdb", (503, "UPSTREAM_UNAVAILABLE")), ("tinyhumans", (402, "USER_INSUFFICIENT_CREDITS"))],
    ids=["503", "402"],
)
async def test_who_waits_is_told_that_jobs_are_parked_and_they_go_on_once_the_engine_is_well(
    live: MakeLive, notes: Path, monkeypatch: pytest.MonkeyPatch, engine: str, failure: tuple[int, str]
) -> None:
    # Probes are far apart: what is parked stays so until the test has looked.
    quick = {"breaker_threshold": 3, "probe_interval": 4.0, "probe_cap": 4.0, "max_attempts": 20}
    async with desk(live, notes, monkeypatch, engine, **quick) as at:
        at.server.knobs.fail_all = failure
        at.layer.programs.start_together(("worker",), ("beat",))
        async with at.ingest("--wait", "--json") as waiting:
            assert waiting.stderr is not None
            told = (await asyncio.wait_for(waiting.stderr.readline(), timeout=60)).decode()
            running = waiting.returncode is None
            at.server.knobs.fail_all = None
            out, errors = await asyncio.wait_for(waiting.communicate(), timeout=90)

        answer = json.loads(out)
        assert re.match(r"parked: \d of the jobs", told)
        assert "tinymemory jobs stats" in told
        assert running
        assert errors == b"", "once is enough"
        assert waiting.returncode == 0
        assert (answer["accepted"], answer["failed"], answer["jobs_failed"]) == (NOTES, [], [])
        assert await at.states() == [], "nothing is owed or given up"
        assert at.stored() == NOTES


async def test_an_engine_that_stays_away_ends_the_wait_with_what_was_given_up(
    live: MakeLive, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Below the breaker's threshold a job dies by its attempts.
    async with desk(live, notes, monkeypatch, "cortexdb", breaker_threshold=1000, max_attempts=2) as at:
        at.server.knobs.fail_all = (503, "UPSTREAM_UNAVAILABLE")
        at.layer.programs.start_together(("worker",), ("beat",))
        async with at.ingest("--wait") as waiting:
            out, errors = await asyncio.wait_for(waiting.communicate(), timeout=90)
        async with at.ingest("--json") as later:
            told, _ = await asyncio.wait_for(later.communicate(), timeout=90)
        at.server.knobs.fail_all = None
        async with at.ingest("--wait", "--again", "--json") as again:
            await asyncio.wait_for(again.communicate(), timeout=90)

        assert waiting.returncode == 1
        assert out.count(b" is dead: see tinymemory jobs show ingest:team:acme:") == 3
        assert b"101 accepted" in errors
        assert later.returncode == 1
        assert {one["reason"] for one in json.loads(told)["failed"]} == {"dead"}
        assert len(json.loads(told)["failed"]) == NOTES
        assert again.returncode == 0
        assert at.stored() == NOTES


async def test_who_gives_up_waiting_leaves_the_jobs_and_may_wait_again(
    live: MakeLive, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(live, notes, monkeypatch, "tinyhumans", probe_interval=1.0, probe_cap=1.0) as at:
        at.server.knobs.fail_all = (402, "USER_INSUFFICIENT_CREDITS")
        at.layer.programs.start_together(("worker",), ("beat",))
        async with at.ingest("--wait") as cut_short:
            await until(at.all_parked)
            cut_short.kill()
            await cut_short.wait()
        async with at.ingest("--wait", "--json") as waiting:
            assert waiting.stderr is not None
            told = await asyncio.wait_for(waiting.stderr.readline(), timeout=60)
            at.server.knobs.fail_all = None
            out, _ = await asyncio.wait_for(waiting.communicate(), timeout=90)

        assert told.startswith(b"parked: 3 of the jobs")
        assert (json.loads(out)["unchanged"], waiting.returncode) == (NOTES, 0)
        assert at.stored() == NOTES
