"""What is wrong with an installation, and what to do about each."""

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Any

from kombu.connection import Connection
from pydantic import BaseModel, ConfigDict
from redis import Redis
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError

from tinymemory.engine import HealthState
from tinymemory.errors import TinyMemoryError
from workers.access import open_ledger
from workers.broker import kombu_broker
from workers.connection import sync_redis
from workers.factory import engine_maker
from workers.ledger import Party, StatsView
from workers.redaction import Redactor, without_password
from workers.routing import all_queues
from workers.settings import DEFAULT_PROFILE, WorkerSettings
from workers.spool import Spool
from workers.vitals import Vital, Vitals

OLDEST_REDIS = (6, 2)
ALIVE_SECONDS = 60.0
"""A worker or beat that said nothing for longer counts as gone."""
MOST_SKEW_SECONDS = 5.0
LATE_SECONDS = 300.0
_ANSWER_SECONDS = 5.0


class Verdict(StrEnum):
    """How a check went."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class Finding(BaseModel):
    """One check: what was found, and what to do when it is not well."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    check: str
    verdict: Verdict
    found: str
    advice: str | None = None


async def examine(settings: WorkerSettings) -> list[Finding]:
    """Run every check; one that cannot run is a finding too."""
    client = sync_redis(settings.redis_url, timeout=_ANSWER_SECONDS)
    try:
        redis = await asyncio.to_thread(_redis_findings, client, settings)
        broker = await asyncio.to_thread(_broker_finding, settings)
        if redis[0].verdict is Verdict.PROBLEM:
            return [*redis, broker, *await _engine_findings(settings)]
        vitals = await asyncio.to_thread(Vitals(client, key_prefix=settings.key_prefix).all)
        return [
            *redis,
            broker,
            *_worker_findings(vitals, settings),
            _beat_finding(vitals),
            *await _engine_findings(settings),
            *await _ledger_findings(settings),
        ]
    finally:
        client.close()


def _redis_findings(client: Redis, settings: WorkerSettings) -> list[Finding]:
    name = without_password(settings.redis_url)
    try:
        info: dict[str, Any] = client.info()  # pyright: ignore[reportUnknownMemberType, reportAssignmentType]  # redis-py leaves **kwargs untyped
        seconds, microseconds = client.time()  # pyright: ignore[reportUnknownMemberType]  # the same
    except RedisError as error:
        return [_problem("redis", *_why_redis_fails(error, name))]
    return [
        _ok("redis", f"{name} answers"),
        *server_findings(info),
        clock_finding(seconds + microseconds / 1e6 - time.time()),
    ]


def _why_redis_fails(error: RedisError, name: str) -> tuple[str, str]:
    if isinstance(error, AuthenticationError | NoPermissionError):
        return f"{name} refuses the credential", "correct the user or password in TINYMEMORY_REDIS_URL"
    return (
        f"{name} does not answer ({type(error).__name__})",
        "start Redis, or name another with TINYMEMORY_REDIS_URL",
    )


def clock_finding(skew: float) -> Finding:
    """How many seconds Redis's clock is ahead of this machine's."""
    found = f"{abs(skew):.1f} s from Redis's"
    if abs(skew) <= MOST_SKEW_SECONDS:
        return _ok("clock", found)
    advice = "set both by NTP: the ledger counts by Redis's clock alone, and what people read is this one"
    return _warning("clock", found, advice)


def server_findings(info: Mapping[str, Any]) -> Iterator[Finding]:
    """What the server's INFO says of its version, and of whether it keeps what it is given."""
    version = str(info.get("redis_version", "0"))
    if tuple(int(part) for part in version.split(".")[:2] if part.isdigit()) >= OLDEST_REDIS:
        yield _ok("redis version", version)
    else:
        yield _problem("redis version", version, "use Redis 6.2 or newer, or Valkey")
    policy = str(info.get("maxmemory_policy", "noeviction"))
    if policy == "noeviction":
        yield _ok("redis eviction", policy)
    else:
        yield _problem("redis eviction", policy, "set maxmemory-policy to noeviction: jobs would be dropped")
    if info.get("aof_enabled"):
        yield _ok("redis persistence", "append-only file")
    else:
        advice = "set appendonly to yes: a restart would lose every job that is owed"
        yield _problem("redis persistence", "no append-only file", advice)


def _broker_connection(settings: WorkerSettings) -> Connection:
    broker = kombu_broker(settings.broker_url)
    return Connection(broker.url, transport_options=broker.options, connect_timeout=int(_ANSWER_SECONDS))


def _broker_finding(settings: WorkerSettings) -> Finding:
    name = without_password(settings.broker_url)
    try:
        with _broker_connection(settings) as connection:  # pyright: ignore[reportUnknownVariableType]  # kombu ships no types
            connection.ensure_connection(max_retries=1, timeout=_ANSWER_SECONDS)  # pyright: ignore[reportUnknownMemberType]  # the same
    except Exception as error:  # each transport has exceptions of its own
        advice = "start the broker, or name another with TINYMEMORY_BROKER_URL"
        return _problem("broker", f"{name} does not answer ({type(error).__name__})", advice)
    return _ok("broker", f"{name} answers")


def _worker_findings(vitals: list[Vital], settings: WorkerSettings) -> Iterator[Finding]:
    alive = [vital for vital in vitals if vital.kind == "worker" and vital.age_s <= ALIVE_SECONDS]
    for queue in all_queues(settings):
        takers = [vital for vital in alive if queue in vital.queues]
        if not takers:
            yield _problem(
                f"workers of {queue}", "none is alive", f"start one: tinymemory worker --queues {queue}"
            )
        elif all(vital.stuck for vital in takers):
            yield _problem(f"workers of {queue}", "alive and taking nothing", "restart them; see their logs")
        else:
            yield _ok(f"workers of {queue}", f"{len(takers)} alive")


def _beat_finding(vitals: list[Vital]) -> Finding:
    alive = [vital for vital in vitals if vital.kind == "beat" and vital.age_s <= ALIVE_SECONDS]
    if not alive:
        advice = "start one: tinymemory beat (or let a cron run tinymemory sweep)"
        return _problem("beat", "none is alive", advice)
    if not any(vital.leads for vital in alive):
        return _warning("beat", f"{len(alive)} alive, none leads", "wait a minute; then restart one")
    return _ok("beat", f"{len(alive)} alive, one leads")


async def _engine_findings(settings: WorkerSettings) -> list[Finding]:
    profiles = dict.fromkeys((DEFAULT_PROFILE, *settings.profiles))
    return [await _engine_finding(settings, profile) for profile in profiles]


async def _engine_finding(settings: WorkerSettings, profile: str) -> Finding:
    check = f"engine of profile {profile}"
    redactor = Redactor.from_settings(settings)
    try:
        engine = await asyncio.to_thread(lambda: engine_maker(settings)(Party("root", profile)))
    except TinyMemoryError as error:
        return _problem(check, redactor.text(str(error)), "correct the settings the message names")
    except Exception as error:  # a host's own factory may raise anything
        return _problem(check, f"making it failed ({type(error).__name__})", "see TINYMEMORY_ENGINE_FACTORY")
    try:
        async with asyncio.timeout(_ANSWER_SECONDS * 2):
            health = await engine.health()
    except Exception as error:  # a host's own engine may raise anything
        return _problem(check, f"asking for its health failed ({type(error).__name__})", "see its own logs")
    finally:
        with suppress(Exception):  # the finding is made; closing may not undo it
            await engine.aclose()
    found = f"{engine.descriptor.id}: {redactor.text(health.reason or health.state.value)}"
    match health.state:
        case HealthState.OK:
            return _ok(check, found)
        case HealthState.DEGRADED:
            return _warning(check, found, "it may recover by itself; its jobs are retried meanwhile")
        case HealthState.DOWN:
            return _problem(check, found, "see that it runs and that its credential is valid")


async def _ledger_findings(settings: WorkerSettings) -> list[Finding]:
    async with open_ledger(settings) as ledger:
        stats = await ledger.stats()
    return [*ledger_findings(stats), *_spool_findings(settings)]


def ledger_findings(stats: StatsView) -> Iterator[Finding]:
    """What is late, parked or given up."""
    age = stats.oldest_due_age_s or 0.0
    if age > LATE_SECONDS:
        found = f"the oldest of {stats.due} due jobs has been due for {age:.0f} s"
        yield _warning("lateness", found, "start more workers; see tinymemory jobs stats --by-root")
    else:
        yield _ok("lateness", f"{stats.due} due, the oldest for {age:.0f} s")
    for breaker in stats.breakers:
        yield _warning(
            f"breaker of {breaker.profile} {breaker.root or '(whole profile)'}",
            f"{breaker.parked} jobs parked: {breaker.reason}",
            "mend what the reason says; a probe closes it then by itself",
        )
    if stats.dead:
        advice = "see tinymemory jobs dead; then jobs retry or jobs drop"
        yield _warning("dead letters", str(stats.dead), advice)
    else:
        yield _ok("dead letters", "none")


def _spool_findings(settings: WorkerSettings) -> Iterator[Finding]:
    spool = Spool.from_settings(settings)
    if spool is None:
        return
    if lines := spool.stats().lines:
        yield _warning("spool", f"{lines} jobs wait for Redis", "run tinymemory spool replay")
    else:
        yield _ok("spool", "empty")


def _ok(check: str, found: str) -> Finding:
    return Finding(check=check, verdict=Verdict.OK, found=found)


def _warning(check: str, found: str, advice: str) -> Finding:
    return Finding(check=check, verdict=Verdict.WARNING, found=found, advice=advice)


def _problem(check: str, found: str, advice: str) -> Finding:
    return Finding(check=check, verdict=Verdict.PROBLEM, found=found, advice=advice)
