"""What a Celery worker of ours does besides Celery: it checks before it starts, and stops in order.

Source: https://docs.celeryq.dev/en/stable/userguide/extending.html
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUntypedFunctionDecorator=false, reportOptionalSubscript=false, reportOptionalMemberAccess=false
# Celery and Kombu ship no types; what is taken from them is narrowed where it leaves this module.

import logging
import sys
from typing import Any

from celery import Celery, bootsteps, signals
from celery.concurrency.prefork import TaskPool as ForkingPool
from celery.exceptions import WorkerShutdown
from celery.worker import state
from redis.exceptions import RedisError

from tinymemory.errors import ConfigError
from tinymemory.exit import ExitCode
from workers.configuration import (
    ensure_keeps_keys,
    ensure_no_other_broker,
    ensure_pool_grows,
    ensure_visibility,
)
from workers.connection import sync_redis
from workers.doorbell import Bell, BrokerBell
from workers.doorstep import OwnDoor
from workers.factory import ensure_engines
from workers.listener import Listener
from workers.runtime import RuntimeHolder
from workers.settings import WorkerSettings
from workers.stopping import StopPipes

_ASK_AGAIN_SECONDS = 5.0

log = logging.getLogger(__name__)


def extend_workers(app: Celery, runtimes: RuntimeHolder) -> None:
    """Give the app's workers our steps; nothing happens until a worker starts."""

    class Ending(bootsteps.StartStopStep):
        """Tells every process of the worker that it stops, and ends their runtimes."""

        # Created before the pool forks, so that its children hold the pipes too.
        def __init__(self, parent: Any, **kwargs: Any) -> None:
            super().__init__(parent, **kwargs)
            runtimes.stop = StopPipes()
            signals.worker_shutting_down.connect(self._shutting_down, weak=False)
            signals.worker_process_init.connect(self._forked, weak=False)
            signals.worker_process_shutdown.connect(self._process_ends, weak=False)
            signals.worker_shutdown.connect(self._process_ends, weak=False)

        def close(self, parent: Any) -> None:
            """Also reached when the worker is told to stop over the broker, where there is no signal."""
            if runtimes.stop is not None:
                runtimes.stop.soon.say()

        def _shutting_down(self, how: str = "", **_: Any) -> None:
            if runtimes.stop is not None:
                runtimes.stop.soon.say()
                if how == "Cold":
                    runtimes.stop.now.say()

        def _forked(self, **_: Any) -> None:
            runtimes.forked()

        def _process_ends(self, **_: Any) -> None:
            runtimes.close()

    class StartUpChecks(bootsteps.StartStopStep):
        """Refuses a configuration that loses or doubles jobs, each time it connects."""

        requires = ("celery.worker.consumer.connection:Connection",)

        def start(self, parent: Any) -> None:
            settings = runtimes.settings or WorkerSettings.load()
            try:
                ensure_no_other_broker(sys.argv, settings)
                ensure_visibility(app.conf, settings)
                ensure_pool_grows(parent.controller)
                ensure_engines(settings)
                if not self._ledger_is_fit(settings):
                    parent.timer.call_after(_ASK_AGAIN_SECONDS, self._ask_again, (parent, settings))
            except ConfigError as error:
                _refuse(error)
                raise WorkerShutdown(ExitCode.CONFIG) from error

        def _ask_again(self, parent: Any, settings: WorkerSettings) -> None:
            try:
                if not self._ledger_is_fit(settings):
                    parent.timer.call_after(_ASK_AGAIN_SECONDS, self._ask_again, (parent, settings))
            except ConfigError as error:
                _refuse(error)
                state.should_stop = ExitCode.CONFIG

        def _ledger_is_fit(self, settings: WorkerSettings) -> bool:
            client = sync_redis(settings.redis_url, timeout=2.0)
            try:
                ensure_keeps_keys(client.info("memory"))
            except RedisError as error:
                log.warning("ledger_unreachable", extra={"error": type(error).__name__})
                return False
            finally:
                client.close()
            return True

    class Listening(bootsteps.StartStopStep):
        """Hears that something came due, and claims it; begun anew with each connection to the broker."""

        requires = ("celery.worker.consumer.tasks:Tasks", StartUpChecks)

        def __init__(self, parent: Any, **kwargs: Any) -> None:
            super().__init__(parent, **kwargs)
            self._listener: Listener | None = None
            # One for all connections: what the last one left is passed on by the next.
            self._door: OwnDoor | None = None

        def start(self, parent: Any) -> None:
            settings = runtimes.settings or WorkerSettings.load()
            bell = BrokerBell(app, redis_is_broker=settings.redis_is_broker)
            # RabbitMQ pushes as many messages as there are slots, and knows of no others.  Without a
            # loop (Windows, green threads) nobody could be asked to take anything.
            if settings.redis_is_broker and parent.hub is not None:
                self._door = self._door or OwnDoor(app, parent, bell)
            if not isinstance(parent.pool, ForkingPool):
                runtimes.get(parent.hostname)  # what it takes to open, the first job would wait for
            self._listener = self._listening(settings, bell)
            self._listener.start()

        def _listening(self, settings: WorkerSettings, bell: Bell) -> Listener:
            def queues() -> list[str]:
                return list(app.amqp.queues.consume_from)

            if self._door is None:
                return Listener(settings, bell, queues)
            return Listener(settings, self._door, queues, self._door.pass_on)

        def stop(self, parent: Any) -> None:
            if self._listener is not None:
                self._listener.end()
                self._listener = None

        terminate = stop

    app.steps["worker"].add(Ending)
    app.steps["consumer"].add(StartUpChecks)
    app.steps["consumer"].add(Listening)


def _refuse(error: ConfigError) -> None:
    log.critical("start_refused: %s", error)
    sys.stderr.write(f"error: {error}\n")
