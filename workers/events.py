"""What Flower sees of a job's runs: one row a run, from its beginning to how it ended.

Celery would announce a task when its message is received, before anything can know whether the
doorbell is stale; such a row would never end.  So the job tasks send none of Celery's own events,
and these are sent by whoever runs the job, once the ledger has let it begin.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUntypedFunctionDecorator=false, reportOptionalSubscript=false, reportOptionalMemberAccess=false
# Celery and Kombu ship no types; what is taken from them is narrowed where it leaves this module.

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Mapping
from typing import Any, Protocol

from celery import Celery

_FLUSH_SECONDS = 0.1
_MOST_HELD = 10_000

log = logging.getLogger(__name__)

Event = tuple[str, Mapping[str, Any]]


class Rows(Protocol):
    """Where what becomes of a run is shown."""

    def began(self, task_id: str, name: str, args: str) -> None:
        """A run has begun; `args` is what people see."""
        ...

    def succeeded(self, task_id: str, result: str, runtime: float) -> None:
        """It did what there was to do; `result` is its outcome as JSON, `runtime` seconds."""
        ...

    def retried(self, task_id: str, why: str) -> None:
        """It will run again."""
        ...

    def failed(self, task_id: str, why: str) -> None:
        """It is dead."""
        ...

    def revoked(self, task_id: str) -> None:
        """It was cancelled while it ran."""
        ...


class FlowerRows(Rows):
    """Sends task events in the background, in order, a batch at a time.

    Nothing here waits for the broker, and what it cannot take is dropped: a row in Flower is worth
    less than a job.
    """

    def __init__(self, app: Celery, *, hostname: str) -> None:
        self._app = app
        self._hostname = hostname
        self._held: queue.Queue[Event | None] = queue.Queue(_MOST_HELD)
        self._thread = threading.Thread(target=self._send_all, name="tinymemory-events", daemon=True)
        self._thread.start()

    def began(self, task_id: str, name: str, args: str) -> None:
        """A run has begun; `args` is what people see."""
        self._put("task-received", uuid=task_id, name=name, args=args, kwargs="", retries=0, eta=None)
        self._put("task-started", uuid=task_id)

    def succeeded(self, task_id: str, result: str, runtime: float) -> None:
        """It did what there was to do; `result` is its outcome as JSON."""
        self._put("task-succeeded", uuid=task_id, result=result, runtime=runtime)

    def retried(self, task_id: str, why: str) -> None:
        """It will run again."""
        self._put("task-retried", uuid=task_id, exception=why, traceback="")

    def failed(self, task_id: str, why: str) -> None:
        """It is dead."""
        self._put("task-failed", uuid=task_id, exception=why, traceback="")

    def revoked(self, task_id: str) -> None:
        """It was cancelled while it ran."""
        self._put("task-revoked", uuid=task_id, terminated=True, signum=None, expired=False)

    def close(self, timeout: float = 2.0) -> None:
        """Send what is held and end the thread, in `timeout` seconds at most."""
        with contextlib.suppress(queue.Full):
            self._held.put(None, timeout=timeout)
        self._thread.join(timeout)

    def _put(self, kind: str, **fields: Any) -> None:
        with contextlib.suppress(queue.Full):
            # The time of now, not of when the batch is sent.
            self._held.put_nowait((kind, {**fields, "timestamp": time.time()}))

    def _send_all(self) -> None:
        connection = self._app.connection_for_write()
        more = True
        while more:
            batch, more = self._next_batch()
            try:
                self._send(connection, batch)
            except Exception as error:
                # Whatever the transport raises: the next batch gets a connection of its own.
                log.warning("events_dropped", extra={"events": len(batch), "error": type(error).__name__})
                with contextlib.suppress(Exception):
                    connection.close()
                connection = self._app.connection_for_write()
        with contextlib.suppress(Exception):
            connection.close()

    def _send(self, connection: Any, batch: list[Event]) -> None:
        dispatcher = self._app.events.Dispatcher(
            connection, hostname=self._hostname, buffer_group=["task"], buffer_limit=_MOST_HELD
        )
        for kind, fields in batch:
            dispatcher.send(kind, **fields)
        dispatcher.flush()

    def _next_batch(self) -> tuple[list[Event], bool]:
        """What there is to send, at least one event unless it is the end, and whether more may follow."""
        batch: list[Event] = []
        deadline: float | None = None
        while True:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            try:
                event = self._held.get(timeout=left)
            except queue.Empty:
                return batch, True
            if event is None:
                return batch, False
            batch.append(event)
            deadline = deadline or time.monotonic() + _FLUSH_SECONDS
