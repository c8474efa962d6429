"""What a worker process runs its jobs with: one event loop in a thread of its own.

Made in the process that uses it, so after any fork: sockets, loops and threads do not survive one.
Task threads hand it a coroutine and wait.
"""

import asyncio
import contextlib
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from celery import Celery
from redis.exceptions import RedisError

from workers.connection import aclose_redis, async_redis, close_redis, sync_redis
from workers.doorbell import BrokerBell
from workers.engines import EngineCache
from workers.events import FlowerRows
from workers.execution import Executor
from workers.factory import engine_maker
from workers.ledger import Lease, Ledger, LedgerOptions
from workers.redaction import Redactor
from workers.round import Round
from workers.runs import Ended, RunLimits, Runs
from workers.settings import WorkerSettings
from workers.stopping import StopPipes
from workers.vitals import PULSE_SECONDS, Vitals

T = TypeVar("T")
_CLOSE_SECONDS = 10.0

log = logging.getLogger(__name__)


class Runtime:
    """One process's loop, ledger client, engines and runs."""

    def __init__(
        self, app: Celery, settings: WorkerSettings, *, hostname: str, stop: StopPipes | None = None
    ) -> None:
        self._app = app
        self._settings = settings
        self._hostname = hostname
        self._stop = stop
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tinymemory-loop", daemon=True)
        self._thread.start()
        try:
            self.call(self._open)
        except BaseException:
            self._end_loop()
            raise

    def call(self, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on the loop and wait for it."""
        return asyncio.run_coroutine_threadsafe(function(), self._loop).result()

    def answer(self, lease: Lease, queue: str) -> Ended:
        """See `Runs.answer`."""
        return self.call(lambda: self.runs.answer(lease, queue))

    def close(self) -> None:
        """Cancel what still runs back to waiting, close the engines, end the loop."""
        try:
            asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(_CLOSE_SECONDS)
        except Exception as error:  # the process ends, and the rest of it must still be told
            log.warning("runtime_not_closed", extra={"error": type(error).__name__})
        self._rows.close()
        self._end_loop()

    async def _open(self) -> None:
        settings = self._settings
        redactor = Redactor.from_settings(settings)
        self._redis = async_redis(settings.redis_url)
        self._engines = EngineCache(engine_maker(settings))
        self._rows = FlowerRows(self._app, hostname=self._hostname)
        ledger = Ledger(self._redis, LedgerOptions.from_settings(settings))
        bell = BrokerBell(self._app, redis_is_broker=settings.redis_is_broker)
        self.round = Round(ledger, bell, self._engines, settings=settings, redactor=redactor)
        self.runs = Runs(
            ledger,
            bell,
            self._rows,
            Executor(self._engines, settings).execute,
            limits=RunLimits(lease=settings.lease, job_timeout=settings.job_timeout),
            worker=self._hostname,
            redactor=redactor,
        )
        self._keeper = asyncio.create_task(self.runs.keep_alive())
        self._vital_client = sync_redis(settings.redis_url, timeout=1.0)
        self._vitals = Vitals(self._vital_client, key_prefix=settings.key_prefix)
        self._announcer = asyncio.create_task(self._announce())
        if self._stop is not None:
            self._stop.soon.on_said(self._loop, lambda: self.runs.stop(settings.shutdown_grace))
            self._stop.now.on_said(self._loop, lambda: self.runs.stop(0.0))

    async def _announce(self) -> None:
        """Say that the loop turns, for as long as leases are renewed on it."""
        while not self._keeper.done():
            with contextlib.suppress(RedisError):
                await asyncio.to_thread(self._vitals.loop_turned, self._hostname)
            await asyncio.sleep(PULSE_SECONDS)

    async def _close(self) -> None:
        self.runs.stop(0.0)
        await self.runs.idle()
        for task in (self._announcer, self._keeper):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        with contextlib.suppress(RedisError):
            await asyncio.to_thread(self._vitals.loop_ended, self._hostname)
        close_redis(self._vital_client)
        await self._engines.aclose()
        await aclose_redis(self._redis)

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSE_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()


class RuntimeHolder:
    """The runtime of this process, made when first asked for, and again after a fork."""

    def __init__(self, app: Celery) -> None:
        self._app = app
        self.settings: WorkerSettings | None = None
        self._lock = threading.Lock()
        self._pid = 0
        self._runtime: Runtime | None = None
        self.stop: StopPipes | None = None

    def get(self, hostname: str) -> Runtime:
        """The runtime; `hostname` is the worker's, as Flower knows it."""
        if self._runtime is None or self._pid != os.getpid():
            with self._lock:
                if self._runtime is None or self._pid != os.getpid():
                    settings = self.settings or WorkerSettings.load()
                    self._runtime = Runtime(self._app, settings, hostname=hostname, stop=self.stop)
                    self._pid = os.getpid()
        return self._runtime

    def forked(self) -> None:
        """To be called in a child: what the parent had is not this process's."""
        self._lock = threading.Lock()
        self._runtime = None
        if self.stop is not None:
            self.stop.forked()

    def close(self) -> None:
        """End the runtime of this process, if there is one."""
        runtime, self._runtime = self._runtime, None
        if runtime is not None and self._pid == os.getpid():
            runtime.close()
