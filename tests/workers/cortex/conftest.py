"""A loopback CortexDB, and a worker and a beat as real processes that run their jobs against it."""

import os
import sys
from asyncio import subprocess
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from redis.asyncio import Redis

from tinymemory.testing import CortexServer
from workers import MemoryJobs, WorkerSettings
from workers.testing import RedisServer

KEY = "sk-of-the-workers"
QUICK = {
    "BUILD_DELAY": "0.3",
    "IDLE_DELAY": "0.3",
    "SWEEP_INTERVAL": "0.2",
    "REAP_INTERVAL": "1",
    "PROBE_INTERVAL": "0.5",
    "PROBE_CAP": "1",
    "BACKOFF_BASE": "0.2",
    "BACKOFF_CAP": "1",
    "SHUTDOWN_GRACE": "1",
}

StartWorkers = Callable[..., Awaitable[MemoryJobs]]


@asynccontextmanager
async def process(*arguments: str, env: dict[str, str], log: Path) -> AsyncGenerator[None]:
    with log.open("wb") as output:
        command = (sys.executable, "-m", "tinymemory", *arguments)
        started = await subprocess.create_subprocess_exec(*command, env=env, stdout=output, stderr=output)
        try:
            yield
        finally:
            if started.returncode is None:
                started.terminate()
            await started.wait()


@pytest.fixture
async def start_workers(
    redis_server: RedisServer, redis: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[StartWorkers]:
    """Starts a worker and a beat whose engine is at a server, and hands back the host's side of them."""
    monkeypatch.chdir(tmp_path)  # no tinymemory.toml of anybody's
    async with AsyncExitStack() as stack:

        async def start(server: CortexServer, **settings: str) -> MemoryJobs:
            engine = {"direct": "cortexdb", "hosted": "tinyhumans"}[server.wire]
            server.knobs.accept_token = KEY
            env = {
                "REDIS_URL": redis_server.url,
                "DATA_DIR": str(tmp_path),
                # A machine so busy that Redis takes longer than a host waits must fail no test.
                "SPOOL_DIR": str(tmp_path / "spool"),
                "ENGINE": engine,
                f"{engine.upper()}_ENDPOINT": server.url,
                f"{engine.upper()}_API_KEY": KEY,
                **QUICK,
                **settings,
            }
            for name, value in env.items():
                monkeypatch.setenv(f"TINYMEMORY_{name}", value)
            child = {**os.environ, "PYTHONPATH": str(tmp_path)}
            for name, arguments in {"worker": ("worker", "-c", "4"), "beat": ("beat",)}.items():
                await stack.enter_async_context(process(*arguments, env=child, log=tmp_path / f"{name}.log"))
            return await stack.enter_async_context(MemoryJobs(WorkerSettings.load()))

        yield start
