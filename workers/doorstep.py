"""A doorbell that a worker rings at its own door: no broker between the claim and the run.

What a worker claims while it has free slots it can answer itself.  By way of the broker, a message
is published, kept, taken and acknowledged first, which costs several times what a short run does.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUntypedFunctionDecorator=false, reportOptionalSubscript=false, reportOptionalMemberAccess=false
# Celery and Kombu ship no types; what is taken from them is narrowed where it leaves this module.

import logging
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotTakenError
from typing import Any

from celery import Celery
from celery.worker import state
from kombu.message import Message
from kombu.serialization import dumps

from workers.configuration import EXCHANGE
from workers.doorbell import Bell, task_message
from workers.ledger import Doorbell, Lease

_TAKING_SECONDS = 1.0
"""How long the worker's loop may take to look; it is away while its broker is."""

log = logging.getLogger(__name__)


class OwnDoor:
    """Rings here for as many as there are free slots, and by way of `bell` for the others.

    One free slot is left to the message that the worker may be taking from the broker just now, so
    that none waits here behind a run while another worker is free.  What was taken and did not come
    to begin, because the worker stops or its link broke, is to be passed on: no broker gives it to another.
    """

    def __init__(self, app: Celery, consumer: Any, bell: Bell) -> None:
        self._app = app
        self._consumer = consumer
        self._bell = bell
        self._channel = _OwnChannel()

    def ring(self, doorbells: Sequence[Doorbell]) -> list[Lease]:
        """See `Bell.ring`."""
        taken = self._taken(doorbells)
        return self._bell.ring(doorbells[taken:]) if taken < len(doorbells) else []

    def depth(self, queue: str) -> int | None:
        """See `Bell.depth`."""
        return self._bell.depth(queue)

    def pass_on(self) -> list[Lease]:
        """Ring by the broker for what was taken and is not begun; those unrung, to be given back."""
        left = list(self._channel.unanswered.values())
        unrung = self._bell.ring(left) if left else []
        for doorbell in left:
            self._channel.basic_ack(doorbell.lease.task_id)
        return unrung

    def _taken(self, doorbells: Sequence[Doorbell]) -> int:
        """How many of them, from the first, the worker has taken in."""
        answer: Future[int] = Future()
        # Slots are counted, and messages taken, by the worker's loop alone.
        self._consumer.hub.call_soon(self._take, doorbells, answer)
        try:
            return answer.result(_TAKING_SECONDS)
        except NotTakenError:
            return 0 if answer.cancel() else answer.result()

    def _take(self, doorbells: Sequence[Doorbell], answer: Future[int]) -> None:
        if not answer.set_running_or_notify_cancel():
            return
        taken = 0
        try:
            for doorbell in doorbells[: self._free_slots()]:
                self._take_one(doorbell)
                taken += 1
        except Exception as error:  # the loop goes on, and the broker's way is open still
            log.warning("own_door_closed", extra={"error": type(error).__name__})
        answer.set_result(taken)

    def _take_one(self, doorbell: Doorbell) -> None:
        tag = doorbell.lease.task_id
        self._channel.unanswered[tag] = doorbell
        try:
            self._consumer.task_consumer.on_message(self._message(doorbell))
        except Exception:
            self._channel.basic_ack(tag)
            raise

    def _free_slots(self) -> int:
        consumer = self._consumer
        slots = getattr(consumer.controller, "max_concurrency", None) or consumer.pool.num_processes
        # What a rate limit holds up is taken, and not among the reserved.
        taken = max(len(state.reserved_requests), len(self._channel.unanswered))
        return max(0, slots - taken - 1)

    def _message(self, doorbell: Doorbell) -> Message:
        task = task_message(self._app, doorbell)
        content_type, content_encoding, body = dumps(task.body, serializer="json")
        return Message(
            body=body,
            content_type=content_type,
            content_encoding=content_encoding,
            headers=task.headers,
            properties=task.properties,
            delivery_tag=doorbell.lease.task_id,
            delivery_info={"exchange": EXCHANGE, "routing_key": doorbell.queue},
            accept=self._consumer.task_consumer.accept,
            channel=self._channel,
        )


class _OwnChannel:
    """What messages are acknowledged to that no broker keeps: each as its run is about to begin."""

    no_ack_consumers = None

    def __init__(self) -> None:
        self.unanswered: dict[str, Doorbell] = {}
        """By delivery tag."""

    def basic_ack(self, delivery_tag: str, multiple: bool = False) -> None:
        """It is in a pool's hands."""
        self.unanswered.pop(delivery_tag, None)

    def basic_reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Nobody runs it; its lease brings its job back."""
        self.unanswered.pop(delivery_tag, None)
