"""The doorbell: the broker's message that tells some worker to begin a claimed job."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUntypedFunctionDecorator=false, reportOptionalSubscript=false, reportOptionalMemberAccess=false
# Celery and Kombu ship no types; what is taken from them is narrowed where it leaves this module.

import logging
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from celery import Celery
from kombu.exceptions import OperationalError

from workers.ledger import Doorbell, Lease
from workers.routing import message_priority

TASK_BY_TYPE = {
    "build_beliefs": "tinymemory.build_beliefs",
    "ingest_brain": "tinymemory.ingest_brain",
}
PUBLISH_RETRIES: dict[str, Any] = {
    "max_retries": 1,
    "interval_start": 0.1,
    "interval_step": 0.1,
    "interval_max": 0.2,
}
"""One more try; what then is not published goes back to the ledger, which the next sweep asks again."""

log = logging.getLogger(__name__)


class Bell(Protocol):
    """What rings doorbells."""

    def ring(self, doorbells: Sequence[Doorbell]) -> list[Lease]:
        """Publish a message for each, in order; those that could not be published, to be given back."""
        ...

    def depth(self, queue: str) -> int | None:
        """How many messages wait in a queue; None when the broker does not answer."""
        ...


class BrokerBell:
    """Rings through the Celery app's broker.  Blocks for as long as the broker's timeouts allow."""

    def __init__(self, app: Celery, *, redis_is_broker: bool) -> None:
        self._app = app
        self._redis_is_broker = redis_is_broker

    def ring(self, doorbells: Sequence[Doorbell]) -> list[Lease]:
        """Publish a message for each, in order; those that could not be published, to be given back.

        The first failure ends it: what one message could not do in its time, the rest will not do
        either, and each would wait as long.
        """
        rung = 0
        try:
            with linked_producer(self._app) as producer:
                for doorbell in doorbells:
                    self._publish(doorbell, producer)
                    rung += 1
        except self._link_errors() as error:
            left = [doorbell.lease for doorbell in doorbells[rung:]]
            log.warning("doorbells_unpublished", extra={"count": len(left), "error": type(error).__name__})
            return left
        return []

    def depth(self, queue: str) -> int | None:
        """How many messages wait in a queue; None when the broker does not answer."""
        try:
            with linked_producer(self._app) as producer:
                return queue_depth(producer.connection, queue)
        except self._link_errors() as error:
            log.warning("broker_unreachable", extra={"error": type(error).__name__})
            return None

    def _link_errors(self) -> tuple[type[Exception], ...]:
        connection = self._app.connection_for_write()
        return (OperationalError, OSError, *connection.connection_errors, *connection.channel_errors)

    def _publish(self, doorbell: Doorbell, producer: Any) -> None:
        self._app.send_task(
            **_task(doorbell),
            queue=doorbell.queue,
            priority=message_priority(doorbell.priority, redis_is_broker=self._redis_is_broker),
            producer=producer,
            retry=True,
            retry_policy=PUBLISH_RETRIES,
        )


def task_message(app: Celery, doorbell: Doorbell) -> Any:
    """The message of a doorbell, as Celery would publish it: its headers, properties and body."""
    return app.amqp.create_task_message(kwargs={}, **_task(doorbell))


def _task(doorbell: Doorbell) -> dict[str, Any]:
    return {
        "name": TASK_BY_TYPE[doorbell.type],
        "args": [doorbell.lease.key, doorbell.lease.token],
        "task_id": doorbell.lease.task_id,
        "argsrepr": doorbell.scope,
        "kwargsrepr": "",
        "ignore_result": True,
    }


@contextmanager
def linked_producer(app: Celery) -> Generator[Any]:
    """A producer of the app's pool; one that failed is not handed to the next with its broken link."""
    with app.producer_or_acquire() as producer:
        try:
            yield producer
        except Exception:
            with suppress(Exception):
                producer.connection.close()
            raise


def queue_depth(connection: Any, queue: str) -> int:
    """How many messages wait in a queue, 0 when there is none yet."""
    # Anew when it was given up, which `channel` would not do.
    connection.ensure_connection(**PUBLISH_RETRIES)
    # On a channel of its own: RabbitMQ closes one that asks for a queue that is not there.
    with connection.channel() as channel:
        try:
            return channel.queue_declare(queue=queue, passive=True).message_count
        except connection.channel_errors:
            return 0
