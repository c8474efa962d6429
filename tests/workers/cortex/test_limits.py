"""A rate limit slows the workers down and fails nothing; an account out of credits parks its tenant."""

import asyncio
from collections.abc import Awaitable, Callable

from tinymemory import BrainDocument, IngestBrain, Namespace
from tinymemory.testing import CortexServer, cortex_server, wait_until
from workers import MemoryJobs
from workers.access import open_ledger
from workers.ledger import JobState

StartWorkers = Callable[..., Awaitable[MemoryJobs]]
ACME, ZEN = Namespace.parse("team:acme"), Namespace.parse("team:zen")
PATIENCE = 90.0


def ingest(number: int) -> IngestBrain:
    return IngestBrain(documents=(BrainDocument(source="notion", text=f"Policy {number} applies."),))


async def enqueue(jobs: MemoryJobs, root: Namespace, numbers: range) -> list[str]:
    accepted = await jobs.enqueue([ingest(number) for number in numbers], root=root)
    return [one.key for one in accepted]


async def test_a_rate_limited_memory_slows_the_workers_and_fails_no_job(start_workers: StartWorkers) -> None:
    async with cortex_server(
        wire="hosted", rate_limit_per_minute=8, rate_limit_headers={"Retry-After": 1}
    ) as server:
        # Few attempts: what counts as one soon is a job's end.
        jobs = await start_workers(server, MAX_ATTEMPTS="3")
        keys = await enqueue(jobs, ACME, range(8))

        async with open_ledger(jobs.settings) as ledger:

            async def limited_often() -> bool:
                return (await ledger.stats()).retried_total >= 4

            await wait_until(limited_often, timeout=PATIENCE, every=0.1)
            minutes = asyncio.create_task(pass_minutes(server))
            ended = [await jobs.wait(key, timeout=PATIENCE) for key in keys]
            minutes.cancel()
            dead = await ledger.dead()
            retries = [run for run in await ledger.history(root=str(ACME), limit=500) if run.error]

        assert [job.error for job in dead] == []
        assert {status.state for status in ended} == {JobState.DONE}
        documents = server.log.events(f"app:tinymemory/{ACME}/source:notion/app:documents")
        assert sorted(event.text for event in documents) == sorted(f"Policy {n} applies." for n in range(8))
        assert {run.outcome for run in retries} == {"retry"}
        assert all("RATE_LIMITED" in run.error.message for run in retries if run.error)


async def pass_minutes(server: CortexServer) -> None:
    while True:
        server.clock.advance(60)
        await asyncio.sleep(1)


async def test_an_account_out_of_credits_parks_its_jobs_until_it_is_paid(
    start_workers: StartWorkers,
) -> None:
    async with cortex_server(wire="hosted", fail_all=(402, "USER_INSUFFICIENT_CREDITS")) as server:
        jobs = await start_workers(server)
        keys = await enqueue(jobs, ACME, range(8))

        async def all_parked() -> bool:
            return {(await jobs.status(key)).state for key in keys} == {JobState.PARKED}

        await wait_until(all_parked, timeout=PATIENCE)
        async with open_ledger(jobs.settings) as ledger:
            [breaker] = (await ledger.stats()).breakers
        asked = server.seen.count("GET /memory/events") + server.seen.count("POST ")

        server.knobs.fail_all = None
        ended = [await jobs.wait(key, timeout=PATIENCE) for key in keys]

        assert (breaker.root, breaker.parked) == (str(ACME), 8)
        assert "USER_INSUFFICIENT_CREDITS" in breaker.reason
        assert asked <= 8, "a parked job asks nothing more"
        assert {status.state for status in ended} == {JobState.DONE}
        async with open_ledger(jobs.settings) as ledger:
            assert {record.attempts for record in await ledger.history(root=str(ACME), limit=100)} == {1}
