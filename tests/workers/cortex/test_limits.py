"""A rate limit slows the workers down and fails nothing; an unpaid account holds up its tenant alone."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tinymemory import BrainDocument, IngestBrain, Namespace
from tinymemory.testing import CortexServer, cortex_server, wait_until
from tinymemory.testing.server import WireName
from workers import MemoryJobs
from workers.access import open_ledger
from workers.ledger import Enqueued, HistoryView, JobState, StatsView

StartWorkers = Callable[..., Awaitable[MemoryJobs]]
ACME, ZEN = Namespace.parse("team:acme"), Namespace.parse("team:zen")
PATIENCE = 100.0
SLOTS = 4
"""Runs that may be under way at once."""
REQUESTS_OF_AN_INGEST = 4
"""Look it up, append it, see it listed, see it ranked."""

AN_ACCOUNT_EACH = """
import os

from tinymemory.engines.cortex import CortexEngine


def make(root, profile):
    name = str(root).rpartition(":")[2].upper()
    return CortexEngine.{make}(os.environ[f"TINYMEMORY_TEST_{{name}}"], "sk-of-the-workers")
"""


def ingest(number: int) -> IngestBrain:
    return IngestBrain(documents=(BrainDocument(source="notion", text=f"Policy {number} applies."),))


async def enqueue(jobs: MemoryJobs, root: Namespace, numbers: range) -> list[Enqueued]:
    return await jobs.enqueue([ingest(number) for number in numbers], root=root)


def texts_of(server: CortexServer, root: Namespace) -> list[str]:
    return sorted(
        event.text for event in server.log.events(f"app:tinymemory/{root}/source:notion/app:documents")
    )


def policies(numbers: range) -> list[str]:
    return sorted(f"Policy {number} applies." for number in numbers)


async def stats(jobs: MemoryJobs) -> StatsView:
    async with open_ledger(jobs.settings) as ledger:
        return await ledger.stats()


async def ingests_of(jobs: MemoryJobs, *roots: Namespace) -> list[HistoryView]:
    async with open_ledger(jobs.settings) as ledger:
        runs = [run for root in roots for run in await ledger.history(root=str(root), limit=1000)]
    return [run for run in runs if run.type == "ingest_brain"]


async def ends(jobs: MemoryJobs, keys: list[Enqueued]) -> list[JobState]:
    return [(await jobs.wait(key, timeout=PATIENCE)).state for key in keys]


async def are_parked(jobs: MemoryJobs, keys: list[Enqueued]) -> bool:
    async with open_ledger(jobs.settings) as ledger:
        return {(await ledger.status(one.key)).state for one in keys} == {JobState.PARKED}


@pytest.mark.parametrize("wire", ["hosted", "direct"])
async def test_a_limit_is_kept_to_window_after_window_and_costs_no_job_an_attempt(
    start_workers: StartWorkers, wire: WireName
) -> None:
    window, budget, jobs_each = 2.0, 20, 16
    async with cortex_server(
        wire=wire,
        rate_limit_per_minute=budget,
        rate_limit_window=window,
        rate_limit_headers={"Retry-After": None},
    ) as server:
        jobs = await start_workers(server, MAX_ATTEMPTS="1")
        began = server.clock.seconds()

        keys = await enqueue(jobs, ACME, range(jobs_each)) + await enqueue(jobs, ZEN, range(jobs_each))
        ended = await ends(jobs, keys)

        windows = (server.clock.seconds() - began) / window + 1
        answered = server.seen.count() - server.seen.limited
        runs = await ingests_of(jobs, ACME, ZEN)
        assert set(ended) == {JobState.DONE}
        assert [texts_of(server, root) for root in (ACME, ZEN)] == [policies(range(jobs_each))] * 2
        assert [(run.outcome, run.attempts) for run in runs if run.outcome != "retry"] == [("done", 1)] * len(
            keys
        )
        assert {run.outcome for run in runs} <= {"done", "retry"}
        assert answered >= REQUESTS_OF_AN_INGEST * len(keys) > 5 * budget, "it took several windows"
        # What is under way when a window is used up is refused once, and nothing more until the next.
        assert server.seen.limited <= SLOTS * windows


@pytest.mark.parametrize(
    "says", [{"Retry-After": 1}, {"Retry-After": 0}, {}], ids=["too little", "zero", "nothing"]
)
async def test_a_limit_that_does_not_say_how_long_it_lasts_slows_the_jobs_and_fails_none(
    start_workers: StartWorkers, says: Mapping[str, Any]
) -> None:
    async with cortex_server(
        wire="hosted", rate_limit_per_minute=24, rate_limit_window=5, rate_limit_headers=says
    ) as server:
        # One attempt: any that counts is the job's end.
        jobs = await start_workers(server, MAX_ATTEMPTS="1")
        keys = await enqueue(jobs, ACME, range(8)) + await enqueue(jobs, ZEN, range(8))
        await ends(jobs, keys)

        runs = await ingests_of(jobs, ACME, ZEN)
        retries = [run.error.message for run in runs if run.outcome == "retry" and run.error]
        assert [run.error for run in runs if run.outcome == "dead"] == []
        assert [(run.outcome, run.attempts) for run in runs if run.outcome != "retry"] == [("done", 1)] * len(
            keys
        )
        assert retries
        assert all("RATE_LIMITED" in message for message in retries)
        assert [texts_of(server, root) for root in (ACME, ZEN)] == [policies(range(8))] * 2


@pytest.fixture
def an_account_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[CortexServer, CortexServer], None]:
    """Makes the workers' engine of acme one at the first server, and of zen one at the second."""

    def make(acme: CortexServer, zen: CortexServer) -> None:
        how = "direct" if acme.wire == "direct" else "tinyhumans"
        (tmp_path / "an_account_each.py").write_text(AN_ACCOUNT_EACH.format(make=how))
        monkeypatch.setenv("TINYMEMORY_TEST_ACME", acme.url)
        monkeypatch.setenv("TINYMEMORY_TEST_ZEN", zen.url)

    return make


async def test_an_account_out_of_credits_parks_its_tenant_until_it_is_paid_and_no_other(
    start_workers: StartWorkers, an_account_each: Callable[[CortexServer, CortexServer], None]
) -> None:
    async with cortex_server(wire="hosted") as acme, cortex_server(wire="hosted") as zen:
        an_account_each(acme, zen)
        acme.knobs.fail_all = (402, "USER_INSUFFICIENT_CREDITS")
        jobs = await start_workers(acme, MAX_ATTEMPTS="1", ENGINE_FACTORY="an_account_each:make")
        keys = await enqueue(jobs, ACME, range(8))

        await wait_until(lambda: are_parked(jobs, keys), timeout=PATIENCE, every=0.1)
        [breaker] = (await stats(jobs)).breakers
        asked = acme.seen.count() - acme.seen.count("GET /memory/scopes")
        others = await ends(jobs, await enqueue(jobs, ZEN, range(8)))
        late = await enqueue(jobs, ACME, range(8, 10))

        await wait_until(lambda: are_parked(jobs, late), timeout=PATIENCE, every=0.1)
        asked_later = acme.seen.count() - acme.seen.count("GET /memory/scopes")

        acme.knobs.fail_all = None
        paid = await ends(jobs, keys + late)

        assert (breaker.root, breaker.parked) == (str(ACME), 8)
        assert "USER_INSUFFICIENT_CREDITS" in breaker.reason
        assert asked_later == asked <= SLOTS, "what is parked asks nothing, but for the probe's health"
        assert set(others) == {JobState.DONE}
        assert texts_of(zen, ZEN) == policies(range(8))
        assert set(paid) == {JobState.DONE}
        assert texts_of(acme, ACME) == policies(range(10))
        assert {run.attempts for run in await ingests_of(jobs, ACME, ZEN)} == {1}
        assert (await stats(jobs)).breakers == []


async def test_a_direct_server_that_wants_a_plan_for_it_ends_the_job_and_says_so(
    start_workers: StartWorkers, an_account_each: Callable[[CortexServer, CortexServer], None]
) -> None:
    # There a 402 is a feature that is not in the plan: no account that is paid and then well again.
    async with cortex_server(wire="direct") as acme, cortex_server(wire="direct") as zen:
        an_account_each(acme, zen)
        acme.knobs.fail_all = (402, "PLAN_REQUIRED")
        jobs = await start_workers(acme, MAX_ATTEMPTS="2", ENGINE_FACTORY="an_account_each:make")
        keys = await enqueue(jobs, ACME, range(4)) + await enqueue(jobs, ZEN, range(4))

        ended = await ends(jobs, keys)

        runs = await ingests_of(jobs, ACME)
        assert ended == [JobState.DEAD] * 4 + [JobState.DONE] * 4
        assert sorted((run.outcome, run.attempts) for run in runs) == [("dead", 2)] * 4 + [("retry", 1)] * 4
        assert all(
            run.error and run.error.kind == "EngineError" and "402" in run.error.message for run in runs
        )
        assert (await stats(jobs)).breakers == []

        acme.knobs.fail_all = None
        async with open_ledger(jobs.settings) as ledger:
            await ledger.retry([one.key for one in keys[:4]])
        assert set(await ends(jobs, keys[:4])) == {JobState.DONE}
