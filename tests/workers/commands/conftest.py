"""An operator's terminal, and a ledger with one job in each state."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from redis import Redis
from typer.testing import CliRunner, Result

from tinymemory.cli import build_app
from workers.access import open_ledger
from workers.ledger import Coverage, Failure, FailureKind, JobError, Ledger, NewJob, Success
from workers.settings import WorkerSettings
from workers.testing import RedisServer


@dataclass
class Operator:
    """Runs commands as a person would, in one process."""

    runner: CliRunner

    def run(self, *arguments: str, stdin: str | None = None) -> Result:
        return self.runner.invoke(build_app(), list(arguments), input=stdin)

    def json(self, *arguments: str) -> Any:
        result = self.run(*arguments, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)


@pytest.fixture
def ledger_url(redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty ledger that the settings name."""
    with Redis(port=redis_server.port) as client:
        client.flushall()  # pyright: ignore[reportUnknownMemberType]  # redis-py leaves **kwargs untyped
    monkeypatch.setenv("TINYMEMORY_REDIS_URL", redis_server.url)
    return redis_server.url


@pytest.fixture
def operator(ledger_url: str) -> Operator:
    return Operator(CliRunner())


@pytest.fixture
def on_ledger(ledger_url: str) -> Callable[[Callable[[Ledger], Any]], Any]:
    """Runs a coroutine function on the ledger."""

    def run(work: Callable[[Ledger], Any]) -> Any:
        async def connected() -> Any:
            async with open_ledger(WorkerSettings.load()) as ledger:
                return await work(ledger)

        return asyncio.run(connected())

    return run


@dataclass(frozen=True)
class Keys:
    """One job in each state."""

    waiting: str
    parked: str
    dead: str
    done: str


def a_build(root: str, agent: str, delay: float = 0.0) -> NewJob:
    return NewJob(
        key=f"build:{root}:{agent.encode().hex():0>20}",
        queue="tinymemory.beliefs",
        profile="default",
        scope=f"{root}/agent:{agent} [conversation]",
        envelope="{}",
        delay=delay,
        coverage=Coverage(f"{root}/agent:{agent}", inherit=False, descendants=False, kinds=("conversation",)),
    )


@pytest.fixture
def keys(on_ledger: Callable[[Callable[[Ledger], Any]], Any]) -> Keys:
    async def seed(ledger: Ledger) -> Keys:
        async def begun(job: NewJob) -> Any:
            await ledger.enqueue([job])
            (doorbell,) = (await ledger.claim(job.queue, 1)).doorbells
            await ledger.begin(doorbell.lease, worker="w1@host")
            return doorbell.lease

        done = await begun(a_build("team:acme", "done"))
        await ledger.settle(done, Success(built=3))
        dead = await begun(a_build("team:beta", "dead"))
        unknown_engine = JobError("ConfigError", "no engine is called nope")
        await ledger.fail(dead, Failure(FailureKind.PERMANENT, unknown_engine))
        parked = await begun(a_build("team:gamma", "parked"))
        no_credits = JobError("InsufficientCreditsError", "the account is out of credits")
        await ledger.fail(parked, Failure(FailureKind.CREDENTIAL, no_credits))
        waiting = a_build("team:acme", "waiting", delay=300.0)
        await ledger.enqueue([waiting])
        return Keys(waiting.key, parked.key, dead.key, done.key)

    return on_ledger(seed)
