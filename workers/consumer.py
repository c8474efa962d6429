"""The worker's link to the broker: it comes back by itself, and no message can end it."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUntypedFunctionDecorator=false, reportOptionalSubscript=false, reportOptionalMemberAccess=false
# Celery and Kombu ship no types; what is taken from them is narrowed where it leaves this module.

import contextlib
import logging
from collections.abc import Callable
from typing import Any

from celery.concurrency.thread import TaskPool as ThreadPool
from celery.worker import consumer
from celery.worker.state import maybe_shutdown
from kombu.connection import Connection

from workers.app import runtimes
from workers.aside import Aside
from workers.connection import sync_redis
from workers.redaction import Redactor
from workers.settings import WorkerSettings
from workers.transport import tolerate_garbage

_FIRST_PAUSE = 0.2
_PAUSE_STEP = 0.5
_LONGEST_PAUSE = 5.0

log = logging.getLogger(__name__)


class Consumer(consumer.Consumer):
    """Celery's consumer with four answers of its own.

    A broker that is away is tried again every five seconds at the latest, for ever, however its link
    broke.  What cannot be read is set aside, not discarded and not met again.  A cold shutdown cancels
    the runs.  A thread that is free takes its next message at once.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # Workers of ours have nothing to tell one another: that takes a second at each start, and
        # they would greet the workers of every other app on the same broker.
        super().__init__(*args, **(kwargs | {"without_mingle": True, "without_gossip": True}))
        settings = WorkerSettings.load()
        self._aside = Aside(
            sync_redis(settings.redis_url),
            key_prefix=settings.key_prefix,
            redactor=Redactor.from_settings(settings),
        )
        if isinstance(self.pool, ThreadPool):
            # A thread's end is no event of the loop that takes the messages: while all slots were
            # taken it asks for none, and would sleep on for up to a second beside free ones.
            self.pool.apply_async = telling(self.pool.apply_async, self._look_again)

    def _look_again(self) -> None:
        if self.hub is not None:
            self.hub.call_soon(_nothing)

    def connection_for_read(self, heartbeat: float | None = None) -> Connection:
        """The link that messages arrive by."""
        connection = self.app.connection_for_read(heartbeat=heartbeat)
        tolerate_garbage(
            connection, lambda queue, text, error: self._aside.put(queue, type(error).__name__, text)
        )
        return self.ensure_connected(connection)

    def ensure_connected(self, conn: Connection) -> Connection:
        """Connect, however long it takes."""

        def failed(error: Exception, pause: float) -> None:
            log.error("broker_unreachable", extra={"error": type(error).__name__, "again_in_s": pause})

        conn.ensure_connection(
            failed,
            interval_start=_FIRST_PAUSE,
            interval_step=_PAUSE_STEP,
            interval_max=_LONGEST_PAUSE,
            callback=maybe_shutdown,
        )
        self.first_connection_attempt = False
        return conn

    def on_connection_error_after_connected(self, exc: Exception) -> None:
        """The link broke: closed, however that goes, and made anew."""
        try:
            super().on_connection_error_after_connected(exc)
        except Exception as error:
            # Kombu gives back what was not acknowledged by way of the link that has just broken, and
            # trips.  The worker would end for it; the doorbell's lease takes care of its job.
            log.warning("link_not_closed", extra={"error": type(error).__name__})

    def create_task_handler(self, *args: Any, **kwargs: Any) -> Any:
        """What is called with every message."""
        handle = super().create_task_handler(*args, **kwargs)
        link_errors = (*self.connection_errors, *self.channel_errors)

        def on_task_received(message: Any) -> Any:
            try:
                return handle(message)
            except link_errors:
                raise
            except Exception as error:  # a header may be anything; see the class
                return self._set_aside(message, error)

        return on_task_received

    def on_unknown_message(self, body: Any, message: Any) -> None:
        """No task is named."""
        self._set_aside(message, LookupError("no task"))

    def on_unknown_task(self, body: Any, message: Any, exc: Exception) -> None:
        """A task of another release: its job comes back to the ledger when its doorbell's lease ends."""
        self._set_aside(message, exc)

    def on_invalid_task(self, body: Any, message: Any, exc: Exception) -> None:
        """Not what a task's message looks like."""
        self._set_aside(message, exc)

    def on_decode_error(self, message: Any, exc: Exception) -> None:
        """Not JSON."""
        self._set_aside(message, exc)

    def _set_aside(self, message: Any, error: Exception) -> None:
        queue = (message.delivery_info or {}).get("routing_key") or ""
        shown = repr({"headers": message.headers, "body": message.body})
        self._aside.put(queue, type(error).__name__, shown)
        message.ack_log_error(log, self.connection_errors)

    def cancel_active_requests(self) -> None:
        """A cold shutdown: nothing that runs is waited for."""
        if runtimes.stop is not None:
            runtimes.stop.now.say()
        # Threads cannot be killed, and need not be: their runs have just been told.
        with contextlib.suppress(NotImplementedError):
            super().cancel_active_requests()


def telling(apply_async: Callable[..., Any], tell: Callable[[], None]) -> Callable[..., Any]:
    """`apply_async`, which calls `tell` after each task's `callback`."""

    def told(target: Any, *args: Any, callback: Callable[..., Any] | None = None, **options: Any) -> Any:
        def ended(*results: Any, **more: Any) -> None:
            try:
                if callback is not None:
                    callback(*results, **more)
            finally:
                tell()

        return apply_async(target, *args, callback=ended, **options)

    return told


def _nothing() -> None:
    """The loop looks for messages after whatever it is called for."""
