"""A job layer for one test: a Redis server, worker processes, a stub engine and the host's side."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from celery import Celery
from programs import Programs
from redis.asyncio import Redis as AsyncRedis
from stub_engine import StubEngine

from tinymemory.brain_input import BrainDocument
from tinymemory.jobs import BackgroundJob, BuildBeliefs, IngestBrain
from tinymemory.namespace import Namespace, Reach
from tinymemory.query import ConsolidateRequest
from workers.client import MemoryJobs
from workers.configuration import celery_configuration
from workers.connection import async_redis, sync_redis
from workers.doorbell import BrokerBell
from workers.engines import EngineCache
from workers.intake import Intake
from workers.ledger import Enqueued, HistoryView, JobState, JobStatus, Ledger, LedgerOptions
from workers.redaction import Redactor
from workers.round import Round, SweepReport
from workers.settings import WorkerSettings
from workers.vitals import Vital, Vitals

SUPPORT = Path(__file__).parent
PATIENCE = 40.0
"""Seconds a condition may take on a machine that has much else to do."""


@dataclass(frozen=True, slots=True)
class Call:
    """One line of what the stub engines wrote down."""

    call: str
    what: str
    """`begin`, `end`, or the error it ended with."""
    about: str
    root: str
    profile: str
    pid: int
    at: float


class Stub:
    """What the workers' stub engines do, and what they did."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def behave(self, about: str = "*", **behaviour: Any) -> None:
        """From the next call on; `about` is a root, a reach's namespace, a title, or `*` for all."""
        path = self.folder / f"{about.replace('/', '|')}.json"
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(behaviour))
        fresh.replace(path)

    def calls(self, call: str = "consolidate", what: str = "begin", *, root: str | None = None) -> list[Call]:
        """The calls written down, in order."""
        path = self.folder / "calls.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        calls = [Call(**json.loads(line)) for line in lines]
        return [
            one for one in calls if one.call == call and what in ("", one.what) and root in (None, one.root)
        ]


class Live:
    """The parts together; `env` is what processes of this job layer run with."""

    def __init__(self, folder: Path, redis_url: str, **settings: Any) -> None:
        self.folder = folder
        self.stub = Stub(folder / "stub")
        values = {"redis_url": redis_url, "data_dir": str(folder / "data"), **_FAST, **settings}
        self.settings = WorkerSettings.load(**values)
        given = {name: value for name, value in values.items() if value is not None}
        self.env = {
            "PYTHONPATH": str(SUPPORT),
            "STUB_DIR": str(self.stub.folder),
            **{f"TINYMEMORY_{name.upper()}": _env(value) for name, value in given.items()},
        }
        self.programs = Programs(folder, self.env)
        self.jobs = MemoryJobs(self.settings)
        self.redis: Any = sync_redis(redis_url)
        # redis-py types both kinds of client as one.
        self.app = Celery("harness", set_as_current=False)
        self.app.config_from_object(celery_configuration(self.settings))  # pyright: ignore[reportUnknownMemberType]  # Celery ships no types

    def ledger(self) -> "OpenLedger":
        """The ledger, as an async context manager."""
        return OpenLedger(self.settings)

    async def enqueue(
        self, *jobs: BackgroundJob, root: str, profile: str = "default", delay: float | None = None
    ) -> list[Enqueued]:
        """As a host would, and with more patience: a hundred at a time."""
        intake = Intake(self.settings)
        new = [one for job in jobs for one in intake.new_jobs(job, root=root, profile=profile, delay=delay)]
        async with self.ledger() as ledger:
            return [
                enqueued
                for start in range(0, len(new), 100)
                for enqueued in await ledger.enqueue(new[start : start + 100])
            ]

    async def one(
        self, job: BackgroundJob, *, root: str, profile: str = "default", delay: float | None = None
    ) -> Enqueued:
        """One job."""
        (enqueued,) = await self.enqueue(job, root=root, profile=profile, delay=delay)
        return enqueued

    async def wait_over(self, *keys: str, seconds: float = PATIENCE) -> list[JobStatus]:
        """Return when none of the jobs will change by itself any more."""
        async with self.ledger() as ledger:

            async def over() -> bool:
                return all([(await ledger.status(key)).is_over for key in keys])

            await until(over, seconds)
            return [await ledger.status(key) for key in keys]

    async def state(self, key: str) -> JobState:
        """Where a job is."""
        async with self.ledger() as ledger:
            return (await ledger.status(key)).state

    async def history(self, key: str) -> list[HistoryView]:
        """A job's runs, the first one first."""
        async with self.ledger() as ledger:
            return (await ledger.history(key=key))[::-1]

    async def sweep(self) -> SweepReport:
        """One round, in this process."""
        engines = EngineCache(
            lambda party: StubEngine(Namespace.parse(party.root), party.profile, self.stub.folder)
        )
        async with self.ledger() as ledger:
            bell = BrokerBell(self.app, redis_is_broker=self.settings.redis_is_broker)
            round_ = Round(ledger, bell, engines, settings=self.settings, redactor=Redactor())
            return await round_.sweep()

    def vitals(self) -> list[Vital]:
        """Who said that it is alive."""
        return Vitals(self.redis, key_prefix=self.settings.key_prefix).all()

    async def aclose(self) -> None:
        """Kill what still runs, and disconnect."""
        self.programs.__exit__(None, None, None)
        await self.jobs.aclose()
        self.redis.close()
        self.app.close()


class OpenLedger:
    """A ledger with a client of its own."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        self._client: AsyncRedis | None = None

    async def __aenter__(self) -> Ledger:
        self._client = async_redis(self._settings.redis_url)
        return Ledger(self._client, LedgerOptions.from_settings(self._settings))

    async def __aexit__(self, *_: object) -> None:
        if self._client is not None:
            await self._client.aclose()


_FAST: dict[str, Any] = {
    "engine_factory": "stub_engine:make",
    "build_delay": 0.0,
    "idle_delay": 0.2,
    "sweep_interval": 0.5,
    "reap_interval": 0.5,
    "probe_interval": 0.5,
    "lease": 2.0,
    "doorbell_lease": 15.0,
    "backoff_base": 0.1,
    "backoff_cap": 0.5,
    "shutdown_grace": 1.0,
}


def build(at: str) -> BuildBeliefs:
    """The build of one namespace."""
    return BuildBeliefs(ConsolidateRequest(reach=Reach.exact(Namespace.parse(at))))


def ingest(*titles: str, text: str = "something to keep") -> IngestBrain:
    """An ingest of documents with these titles."""
    return IngestBrain([BrainDocument("pdf", f"{text} {title}", title=title) for title in titles])


async def until(condition: Callable[[], Awaitable[bool] | bool], seconds: float = PATIENCE) -> None:
    """Return once it holds.

    Raises:
        AssertionError: It did not within `seconds`.
    """
    deadline = time.monotonic() + seconds
    while True:
        held = condition()
        if held if isinstance(held, bool) else await held:
            return
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {condition}"
        await asyncio.sleep(0.03)


def most_at_once(calls: Iterable[Call]) -> int:
    """The most runs that went on together, of calls that begin and end."""
    running = most = 0
    for call in sorted(calls, key=lambda one: one.at):
        running += 1 if call.what == "begin" else -1
        most = max(most, running)
    return most


def _env(value: object) -> str:
    return json.dumps(value) if isinstance(value, dict) else str(value)
