"""Runs on one loop: what keeps them alive, and what ends them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest

from workers.connection import async_redis
from workers.ledger import (
    Doorbell,
    Failure,
    JobState,
    Lease,
    Ledger,
    LedgerOptions,
    NewJob,
    Run,
    Success,
)
from workers.redaction import Redactor
from workers.runs import Ended, RunLimits, Runs, Verdict
from workers.testing import RedisServer

QUEUE = "tinymemory.beliefs"
KEY = "build:team:a:0123456789abcdef0123"
Execute = Callable[[Run], Coroutine[Any, Any, Success | Failure]]


class SilentBell:
    """Rings nowhere, and remembers for what."""

    def __init__(self) -> None:
        self.rung: list[str] = []

    def ring(self, doorbells: Sequence[Doorbell]) -> list[Lease]:
        self.rung += [doorbell.lease.key for doorbell in doorbells]
        return []

    def depth(self, queue: str) -> int | None:
        return 0


class BlindRows:
    """Shows nothing, and remembers the states."""

    def __init__(self) -> None:
        self.states: list[str] = []

    def began(self, task_id: str, name: str, args: str) -> None:
        self.states.append("began")

    def succeeded(self, task_id: str, result: str, runtime: float) -> None:
        self.states.append("succeeded")

    def retried(self, task_id: str, why: str) -> None:
        self.states.append("retried")

    def failed(self, task_id: str, why: str) -> None:
        self.states.append("failed")

    def revoked(self, task_id: str) -> None:
        self.states.append("revoked")


@pytest.fixture
async def own_redis(tmp_path: Path) -> AsyncIterator[RedisServer]:
    with RedisServer(tmp_path / "redis") as server:
        yield server


@pytest.fixture
async def ledger(own_redis: RedisServer) -> AsyncIterator[Ledger]:
    client = async_redis(own_redis.url, timeout=0.5)
    yield Ledger(client, LedgerOptions(lease=1.0))
    await client.aclose()


def runs_of(
    ledger: Ledger,
    execute: Execute,
    rows: BlindRows,
    bell: SilentBell | None = None,
    *,
    job_timeout: float = 60.0,
    spell: float = 2.0,
) -> Runs:
    limits = RunLimits(lease=1.0, job_timeout=job_timeout, spell=spell)
    bell = bell or SilentBell()
    return Runs(ledger, bell, rows, execute, limits=limits, worker="w@host", redactor=Redactor())


def a_job(key: str = KEY) -> NewJob:
    return NewJob(key=key, queue=QUEUE, profile="default", scope="team:a", envelope="{}")


async def claimed(ledger: Ledger) -> Lease:
    await ledger.enqueue([a_job()])
    (doorbell,) = (await ledger.claim(QUEUE)).doorbells
    return doorbell.lease


async def at_once(run: Run) -> Success:
    return Success()


async def forever(run: Run) -> Success:
    await asyncio.sleep(3600)
    return Success()


async def answered(runs: Runs, lease: Lease) -> "asyncio.Task[Ended]":
    task = asyncio.create_task(runs.answer(lease, QUEUE))
    while not runs.count:
        await asyncio.sleep(0.01)
    return task


async def test_a_run_that_cannot_renew_for_a_whole_lease_is_cancelled(
    ledger: Ledger, own_redis: RedisServer
) -> None:
    rows, cancelled = BlindRows(), asyncio.Event()

    async def execute(run: Run) -> Success:
        try:
            return await forever(run)
        finally:
            cancelled.set()

    runs = runs_of(ledger, execute, rows)
    keeper = asyncio.create_task(runs.keep_alive())
    task = await answered(runs, await claimed(ledger))

    own_redis.kill()
    await asyncio.wait_for(cancelled.wait(), 10.0)
    own_redis.start()
    ended = await asyncio.wait_for(task, 10.0)
    keeper.cancel()

    assert ended.verdict is Verdict.AGAIN
    assert rows.states == ["began", "retried"]


async def test_a_settlement_waits_for_a_redis_that_comes_back(ledger: Ledger, own_redis: RedisServer) -> None:
    finish = asyncio.Event()

    async def execute(run: Run) -> Success:
        await finish.wait()
        return Success()

    runs = runs_of(ledger, execute, BlindRows())
    task = await answered(runs, await claimed(ledger))

    own_redis.kill()
    finish.set()
    await asyncio.sleep(0.2)
    own_redis.start()
    ended = await asyncio.wait_for(task, 10.0)

    assert ended.verdict is Verdict.SERVED
    assert (await ledger.status(KEY)).state is JobState.DONE


async def test_a_dropped_run_is_cancelled_and_what_it_came_to_discarded(ledger: Ledger) -> None:
    rows = BlindRows()
    runs = runs_of(ledger, forever, rows)
    keeper = asyncio.create_task(runs.keep_alive())
    task = await answered(runs, await claimed(ledger))

    await ledger.drop(KEY)
    ended = await asyncio.wait_for(task, 10.0)
    keeper.cancel()

    assert ended.verdict is Verdict.CANCELLED
    assert rows.states == ["began", "revoked"]
    assert (await ledger.status(KEY)).state is JobState.CANCELLED


async def test_a_stale_doorbell_runs_nothing_and_shows_nothing(ledger: Ledger) -> None:
    rows = BlindRows()
    runs = runs_of(ledger, forever, rows)
    lease = await claimed(ledger)
    await ledger.drop(KEY)

    ended = await runs.answer(lease, QUEUE)

    assert ended == Ended(Verdict.STALE)
    assert rows.states == []


async def test_a_stopping_process_hands_back_what_it_is_asked_to_begin(ledger: Ledger) -> None:
    runs = runs_of(ledger, forever, BlindRows())
    lease = await claimed(ledger)
    runs.stop(0.0)

    ended = await runs.answer(lease, QUEUE)

    assert ended.verdict is Verdict.STALE
    assert (await ledger.status(KEY)).state is JobState.WAITING


async def test_a_thousand_runs_leave_nothing_behind(ledger: Ledger) -> None:
    async def execute(run: Run) -> Success:
        return Success()

    runs = runs_of(ledger, execute, BlindRows())
    for _ in range(1000):
        assert (await runs.answer(await claimed(ledger), QUEUE)).verdict is Verdict.SERVED

    assert runs.count == 0
    assert len(asyncio.all_tasks()) == 1


MORE = [f"build:team:b:{n:020x}" for n in range(3)]


async def test_one_doorbell_is_answered_with_run_after_run_each_a_row_of_its_own(ledger: Ledger) -> None:
    rows, bell = BlindRows(), SilentBell()
    runs = runs_of(ledger, at_once, rows, bell)
    lease = await claimed(ledger)
    await ledger.enqueue(list(map(a_job, MORE)))

    ended = await runs.answer(lease, QUEUE)

    assert ended.verdict is Verdict.SERVED
    assert rows.states == ["began", "succeeded"] * 4
    # Somebody else may be free: one is rung for, and no second while that one is unanswered.  Nobody
    # was, and it is begun here when nothing else is due.
    assert len(bell.rung) == 1
    assert {(await ledger.status(key)).state for key in MORE} == {JobState.DONE}


async def test_a_long_run_is_followed_by_a_doorbell_for_everything_due(ledger: Ledger) -> None:
    rows, bell = BlindRows(), SilentBell()
    runs = runs_of(ledger, at_once, rows, bell, spell=0.0)
    lease = await claimed(ledger)
    await ledger.enqueue(list(map(a_job, MORE)))

    await runs.answer(lease, QUEUE)

    assert rows.states == ["began", "succeeded"]
    assert sorted(bell.rung) == MORE


async def test_a_run_that_fails_is_followed_by_the_next(ledger: Ledger) -> None:
    rows = BlindRows()

    async def execute(run: Run) -> Success:
        if run.lease.key == KEY:
            raise ValueError("no")
        return Success()

    runs = runs_of(ledger, execute, rows)
    lease = await claimed(ledger)
    await ledger.enqueue([a_job(MORE[0])])

    ended = await runs.answer(lease, QUEUE)

    assert ended.verdict is Verdict.AGAIN
    assert rows.states == ["began", "retried", "began", "succeeded"]


async def test_a_void_doorbell_is_answered_with_what_is_due(ledger: Ledger) -> None:
    rows = BlindRows()
    runs = runs_of(ledger, at_once, rows)
    lease = await claimed(ledger)
    await ledger.drop(KEY)
    await ledger.enqueue([a_job(MORE[0])])

    ended = await runs.answer(lease, QUEUE)

    assert ended == Ended(Verdict.STALE)
    assert (await ledger.status(MORE[0])).state is JobState.DONE


async def test_a_process_that_stops_goes_on_with_nothing(ledger: Ledger) -> None:
    rows, finish = BlindRows(), asyncio.Event()

    async def execute(run: Run) -> Success:
        await finish.wait()
        return Success()

    runs = runs_of(ledger, execute, rows)
    task = await answered(runs, await claimed(ledger))
    await ledger.enqueue([a_job(MORE[0])])
    runs.stop(30.0)
    finish.set()

    assert (await task).verdict is Verdict.SERVED
    assert rows.states == ["began", "succeeded"]
    assert (await ledger.status(MORE[0])).state is JobState.WAITING


@pytest.mark.parametrize("ending", [SystemExit, KeyboardInterrupt])
async def test_an_engine_that_would_end_the_process_fails_its_own_run_alone(
    ledger: Ledger, ending: type[BaseException]
) -> None:
    async def exits(run: Run) -> Success:
        raise ending(3)

    lease = await claimed(ledger)
    ended = await runs_of(ledger, exits, BlindRows()).answer(lease, QUEUE)

    assert ended.verdict is Verdict.AGAIN
    assert ended.why == f"EngineError: engine error: the engine raised {ending.__name__}"
    assert (await ledger.status(lease.key)).state is JobState.WAITING
