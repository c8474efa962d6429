"""A worker's signs of life: that its link to the broker turns, takes what waits, and can be asked."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportOptionalSubscript=false, reportOptionalMemberAccess=false
# Celery and Kombu ship no types; what is taken from them is narrowed where it leaves this module.

import logging
from typing import Any

from celery import Celery, bootsteps
from celery.worker import state
from redis import Redis
from redis.exceptions import RedisError

from workers.connection import sync_redis
from workers.doorbell import queue_depth
from workers.settings import WorkerSettings
from workers.vitals import PULSE_SECONDS, Vitals

STUCK_PULSES = 3
"""So often in a row messages wait and none is taken, before the worker calls itself stuck."""
_ANSWER_SECONDS = 1.0

log = logging.getLogger(__name__)


def add_pulse(app: Celery) -> None:
    """Have the app's workers say that they are alive."""
    app.steps["consumer"].add(Pulse)


class Pulse(bootsteps.StartStopStep):
    """Says every five seconds, from the loop that reads the broker, that the worker is well.

    A loop that stands still, or that has no broker, says nothing, and the health check notices.  One
    that turns and takes nothing while messages wait for it reconnects.
    """

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, parent: Any, **kwargs: Any) -> None:
        super().__init__(parent, **kwargs)
        settings = WorkerSettings.load()
        self._client: Redis = sync_redis(settings.redis_url, timeout=_ANSWER_SECONDS)
        self._vitals = Vitals(self._client, key_prefix=settings.key_prefix)
        self._redis_is_broker = settings.redis_is_broker
        self._entry: Any = None
        self._taken = -1
        self._idle_pulses = 0

    def start(self, parent: Any) -> None:
        """Begin; also after each reconnection."""
        self._idle_pulses = 0
        self._look_at_the_clock(parent.app)  # before the first message is looked at
        self._entry = parent.timer.call_repeatedly(PULSE_SECONDS, self._beat, (parent,))
        parent.timer.call_after(0.0, self._beat, (parent,))

    def stop(self, parent: Any) -> None:
        """Fall silent."""
        if self._entry is not None:
            self._entry.cancel()

    def shutdown(self, parent: Any) -> None:
        """The worker ends as it should."""
        self.stop(parent)
        try:
            self._vitals.ended("worker", parent.hostname)
        except RedisError as error:
            log.debug("ledger_unreachable", extra={"error": type(error).__name__})
        self._client.close()

    def _look_at_the_clock(self, app: Any) -> None:
        try:
            app.go_by(self._vitals.now())
        except RedisError as error:
            log.warning("ledger_unreachable", extra={"error": type(error).__name__})

    def _beat(self, consumer: Any) -> None:
        self._look_at_the_clock(consumer.app)
        queues = tuple(sorted(queue.name for queue in consumer.task_consumer.queues))
        self._idle_pulses = self._idle_pulses + 1 if self._takes_nothing(consumer, queues) else 0
        stuck = self._idle_pulses >= STUCK_PULSES
        try:
            self._vitals.worker_ticked(consumer.hostname, queues=queues, stuck=stuck)
        except RedisError as error:
            log.warning("ledger_unreachable", extra={"error": type(error).__name__})
        if stuck:
            log.error("worker_stuck", extra={"queues": queues})
            self._idle_pulses = 0
            raise consumer.connection_errors[0]("messages wait, and none arrives")

    def _takes_nothing(self, consumer: Any, queues: tuple[str, ...]) -> bool:
        taken, self._taken = self._taken, sum(state.total_count.values())
        has_room = len(state.reserved_requests) < consumer.pool.num_processes
        if not (self._redis_is_broker and has_room and taken == self._taken):
            return False
        return any(queue_depth(consumer.connection, queue) for queue in queues)
