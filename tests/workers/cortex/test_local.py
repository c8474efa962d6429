"""`tinymemory up --engine cortex-local`: a worker on a CortexDB from memory, and why its builds wait."""

import asyncio
import json
import os
import sys
from asyncio import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tinymemory import AgentMemory, MemoryConfig, MemoryLayout, Namespace
from workers import MemoryJobs
from workers.access import open_ledger
from workers.cortex_local import LocalCortex
from workers.ledger import JobState

PATIENCE = 90.0
ROOT = Namespace.parse("team:acme")
COMMAND = ("up", "--engine", "cortex-local", "--no-flower", "--json")


@pytest.fixture
async def up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[dict[str, Any]]:
    """What `up` says once everything runs; the environment is then a host's beside it."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("TINYMEMORY_")]:
        monkeypatch.delenv(name)
    settings = {"BUILD_DELAY": "2", "IDLE_DELAY": "2", "SWEEP_INTERVAL": "0.2", "DATA_DIR": str(tmp_path)}
    for name, value in settings.items():
        monkeypatch.setenv(f"TINYMEMORY_{name}", value)
    with (tmp_path / "up.log").open("wb") as log:
        process = await subprocess.create_subprocess_exec(
            sys.executable, "-m", "tinymemory", *COMMAND, stdout=subprocess.PIPE, stderr=log
        )
        try:
            assert process.stdout is not None
            line = await asyncio.wait_for(process.stdout.readline(), PATIENCE)
            assert line, (tmp_path / "up.log").read_text()
            state = json.loads(line)
            for name, value in state["environment"].items():
                monkeypatch.setenv(name, value)
            yield state
        finally:
            process.terminate()
            await process.wait()


async def test_a_build_behind_the_extraction_builds_what_one_behind_the_write_cannot(
    up: dict[str, Any],
) -> None:
    async with MemoryConfig.from_env().build() as engine, MemoryJobs.from_env() as jobs:
        memory = AgentMemory(engine, MemoryLayout(ROOT), "writer")
        report = await memory.post_turn("thread-1", 1, "The night train leaves at 21:40.")
        early = await memory.run_background(memory.history_build())
        [owed] = await jobs.after_turn(memory, report)
        ended = await jobs.wait(owed, timeout=PATIENCE)

        assert engine.descriptor.id == "cortexdb"
        assert early.consolidation is not None
        assert early.consolidation.built == 0
        assert ended.state is JobState.DONE
        async with open_ledger(jobs.settings) as ledger:
            [record] = await ledger.history(key=owed.key, limit=10)
        assert (record.outcome, record.built) == ("done", 1)


def test_its_facts_are_there_by_the_time_a_build_is_due() -> None:
    assert LocalCortex.planned(300).extraction_delay == 150
    assert LocalCortex.planned(300, 0).extraction_delay == 0


def test_an_extraction_delay_without_cortex_local_is_refused(tmp_path: Path) -> None:
    import subprocess as blocking

    command = (sys.executable, "-m", "tinymemory", "up", "--extraction-delay", "1", "--no-flower")
    environ = {**os.environ, "TINYMEMORY_DATA_DIR": str(tmp_path)}
    ended = blocking.run(command, env=environ, capture_output=True, text=True, timeout=PATIENCE, check=False)

    assert ended.returncode == 78
    assert "--engine cortex-local" in ended.stderr
