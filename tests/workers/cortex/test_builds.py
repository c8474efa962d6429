"""Workers on CortexDB: beliefs built scope by scope, behind the extraction, and told in the history."""

import json
import sys
from asyncio import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tinymemory import AgentMemory, BrainDocument, IngestBrain, MemoryLayout, Namespace
from tinymemory.engines.cortex import CortexEngine
from tinymemory.testing import CortexServer, cortex_server, wait_until
from workers import MemoryJobs
from workers.access import open_ledger
from workers.ledger import Enqueued, HistoryView, JobState

StartWorkers = Callable[..., Awaitable[MemoryJobs]]
KEY = "sk-of-the-workers"
ACME, ZEN = Namespace.parse("team:acme"), Namespace.parse("team:zen")
PATIENCE = 60.0

NO_BUILDS = """
import os

from tinymemory.engine import MemoryEngine
from tinymemory.engines.cortex import CortexEngine


class NoBuilds(CortexEngine):
    async def consolidate(self, request):
        return await MemoryEngine.consolidate(self, request)


def make(root, profile):
    environ = os.environ
    return NoBuilds.direct(environ["TINYMEMORY_CORTEXDB_ENDPOINT"], environ["TINYMEMORY_CORTEXDB_API_KEY"])
"""


def engine_at(server: CortexServer) -> CortexEngine:
    make = CortexEngine.direct if server.wire == "direct" else CortexEngine.tinyhumans
    return make(server.url, KEY)


def agent_of(engine: CortexEngine, root: Namespace, agent: str) -> AgentMemory:
    return AgentMemory(engine, MemoryLayout(root), agent)


def scope_of(root: Namespace, agent: str) -> str:
    return f"app:tinymemory/{root}/agent:{agent}/app:conversations"


async def say(jobs: MemoryJobs, memory: AgentMemory, text: str, *, turn: int = 1) -> Enqueued:
    """Log one turn and hand its jobs over; its scope's build."""
    report = await memory.post_turn("thread-1", turn, text)
    [enqueued] = await jobs.after_turn(memory, report)
    return enqueued


async def history(jobs: MemoryJobs, build: Enqueued) -> list[HistoryView]:
    """A job's runs, oldest first."""
    async with open_ledger(jobs.settings) as ledger:
        return (await ledger.history(key=build.key, limit=100))[::-1]


async def shown_history(build: Enqueued) -> list[dict[str, Any]]:
    """What `tinymemory jobs history` shows an operator of a job, who has the workers' environment."""
    command = (sys.executable, "-m", "tinymemory", "jobs", "history", "--json")
    shown = await subprocess.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    output, _ = await shown.communicate()
    return [run for run in json.loads(output) if run["key"] == build.key]


def said_in(server: CortexServer, scope: str) -> list[str]:
    return [belief["claim"]["object"]["value"] for belief in server.log.beliefs(scope)]


async def test_real_workers_build_the_beliefs_of_each_scope_and_of_no_other(
    start_workers: StartWorkers,
) -> None:
    async with cortex_server(wire="direct") as server, engine_at(server) as engine:
        jobs = await start_workers(server)
        trains = await say(jobs, agent_of(engine, ACME, "writer"), "The night train leaves at 21:40.")
        refunds = await say(jobs, agent_of(engine, ACME, "clerk"), "Refunds take five days.")
        garden = await say(jobs, agent_of(engine, ZEN, "writer"), "The garden opens at nine.")

        ended = [await jobs.wait(key, timeout=PATIENCE) for key in (trains, refunds, garden)]

        assert [status.state for status in ended] == [JobState.DONE] * 3
        scopes = [scope_of(ACME, "writer"), scope_of(ACME, "clerk"), scope_of(ZEN, "writer")]
        assert sorted(body["scope"] for body in server.seen.builds) == sorted(scopes)
        assert [said_in(server, scope) for scope in scopes] == [
            ["The night train leaves at 21:40."],
            ["Refunds take five days."],
            ["The garden opens at nine."],
        ]
        [record] = await history(jobs, trains)
        assert (record.outcome, record.built, record.scopes, record.attempts) == ("done", 1, 1, 1)


async def test_documents_are_built_on_in_the_scope_of_their_own_source(start_workers: StartWorkers) -> None:
    async with cortex_server(wire="direct") as server:
        jobs = await start_workers(server)
        for source in ("notion", "wiki"):
            document = BrainDocument(source=source, text=f"The {source} is open.")
            await jobs.enqueue(IngestBrain(documents=(document,)), root=ACME)
        scopes = [f"app:tinymemory/{ACME}/source:{source}/app:documents" for source in ("notion", "wiki")]

        async def built() -> bool:
            return all(server.log.beliefs(scope) for scope in scopes)

        await wait_until(built, timeout=PATIENCE)

        assert sorted(body["scope"] for body in server.seen.builds) == scopes
        assert [said_in(server, scope) for scope in scopes] == [
            ["The notion is open."],
            ["The wiki is open."],
        ]


async def test_a_build_ahead_of_the_extraction_builds_nothing_and_the_next_one_all(
    start_workers: StartWorkers,
) -> None:
    async with cortex_server(wire="direct", extraction_delay=3600) as server, engine_at(server) as engine:
        jobs = await start_workers(server)
        memory = agent_of(engine, ACME, "writer")
        key = await say(jobs, memory, "The night train leaves at 21:40.")
        await jobs.wait(key, timeout=PATIENCE)
        pending = server.log.pending(scope_of(ACME, "writer"))

        server.clock.advance(3600)
        await say(jobs, memory, "It stops in Linz.", turn=2)
        server.clock.advance(3600)
        await jobs.wait(await say(jobs, memory, "Breakfast is at six.", turn=3), timeout=PATIENCE)

        runs = await history(jobs, key)
        assert pending == 1
        assert runs[0].built == 0
        assert sum(run.built or 0 for run in runs) == 2
        assert server.log.pending(scope_of(ACME, "writer")) == 1
        assert {run.outcome for run in runs} == {"done"}


async def test_builds_of_the_hosted_memory_are_scheduled_and_the_history_says_so(
    start_workers: StartWorkers,
) -> None:
    async with cortex_server(wire="hosted") as server, engine_at(server) as engine:
        jobs = await start_workers(server)
        key = await say(jobs, agent_of(engine, ACME, "writer"), "The night train leaves at 21:40.")

        ended = await jobs.wait(key, timeout=PATIENCE)

        [record] = await shown_history(key)
        assert ended.state is JobState.DONE
        assert (record["outcome"], record["built"], record["error"]) == ("scheduled", None, None)
        assert server.seen.count() == server.seen.count("GET /memory/events") + len(server.seen.writes)


async def test_an_engine_that_builds_no_beliefs_skips_and_the_history_says_so(
    start_workers: StartWorkers, tmp_path: Path
) -> None:
    (tmp_path / "no_builds.py").write_text(NO_BUILDS)
    async with cortex_server(wire="direct") as server, engine_at(server) as engine:
        jobs = await start_workers(server, ENGINE_FACTORY="no_builds:make")
        key = await say(jobs, agent_of(engine, ACME, "writer"), "The night train leaves at 21:40.")

        ended = await jobs.wait(key, timeout=PATIENCE)

        [record] = await shown_history(key)
        assert ended.state is JobState.DONE
        assert (record["outcome"], record["built"], record["error"]) == ("skipped", None, None)
        assert server.seen.builds == []
