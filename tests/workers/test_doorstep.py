"""A doorbell rung at the worker's own door: as many as there are free slots, but one."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# Celery ships no types.

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from celery.worker import state

from workers.app import app
from workers.doorstep import OwnDoor
from workers.ledger import Doorbell, JobKey, Lease, Priority


class Hub:
    """A worker's loop: it turns, or it is away and turns when asked."""

    def __init__(self, *, turns: bool = True) -> None:
        self.turns = turns
        self.later: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[..., None], *args: Any) -> None:
        if self.turns:
            callback(*args)
        else:
            self.later.append(lambda: callback(*args))


class Worker:
    """What the door knows of a Celery consumer, with so many threads."""

    def __init__(self, threads: int, *, turns: bool = True) -> None:
        self.hub = Hub(turns=turns)
        self.controller = SimpleNamespace()
        self.pool = SimpleNamespace(num_processes=threads)
        self.task_consumer: SimpleNamespace | None = SimpleNamespace(
            on_message=self.take, accept={"application/json"}
        )
        self.taken: list[Any] = []

    def take(self, message: Any) -> None:
        self.taken.append(message)


class NotingBell:
    def __init__(self) -> None:
        self.rung: list[Doorbell] = []

    def ring(self, doorbells: Sequence[Doorbell]) -> list[Lease]:
        self.rung += doorbells
        return []

    def depth(self, queue: str) -> int | None:
        return len(self.rung)


def doorbells(count: int) -> list[Doorbell]:
    return [
        Doorbell(
            lease=Lease(JobKey(f"ingest:team:acme:{number}"), number),
            type="ingest_brain",
            queue="tinymemory.ingest",
            priority=Priority.NORMAL,
            root="team:acme",
            profile="default",
            scope="team:acme/source:pdf",
        )
        for number in range(count)
    ]


@pytest.fixture(autouse=True)
def idle(monkeypatch: pytest.MonkeyPatch) -> set[object]:
    """The messages the worker has taken and not answered."""
    reserved: set[object] = set()
    monkeypatch.setattr(state, "reserved_requests", reserved)
    return reserved


def test_all_free_slots_but_one_are_rung_for_here_and_the_others_by_the_broker() -> None:
    worker, bell, rings = Worker(4), NotingBell(), doorbells(5)

    unrung = OwnDoor(app, worker, bell).ring(rings)

    assert [message.delivery_tag for message in worker.taken] == [ring.lease.task_id for ring in rings[:3]]
    assert bell.rung == rings[3:]
    assert unrung == []


def test_a_worker_with_work_in_every_slot_rings_by_the_broker(idle: set[object]) -> None:
    worker, bell, rings = Worker(2), NotingBell(), doorbells(2)
    idle |= {"one run", "another"}

    OwnDoor(app, worker, bell).ring(rings)

    assert (worker.taken, bell.rung) == ([], rings)


def test_the_message_is_what_the_broker_would_have_brought() -> None:
    worker, (ring,) = Worker(4), doorbells(1)

    OwnDoor(app, worker, NotingBell()).ring([ring])

    (message,) = worker.taken
    args, kwargs, _ = message.payload
    assert (args, kwargs) == ([ring.lease.key, ring.lease.token], {})
    assert message.headers["task"] == "tinymemory.ingest_brain"
    assert message.headers["id"] == ring.lease.task_id
    assert message.headers["argsrepr"] == ring.scope
    assert message.delivery_info["routing_key"] == ring.queue
    message.ack()
    assert message.acknowledged


def test_a_loop_that_is_away_takes_nothing_and_not_later_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.doorstep._TAKING_SECONDS", 0.01)
    worker, bell, rings = Worker(4, turns=False), NotingBell(), doorbells(2)

    OwnDoor(app, worker, bell).ring(rings)
    for call in worker.hub.later:
        call()

    assert bell.rung == rings
    assert worker.taken == []


def test_what_the_worker_trips_over_is_rung_by_the_broker() -> None:
    worker, bell, rings = Worker(4), NotingBell(), doorbells(2)
    worker.task_consumer = None  # between two connections

    OwnDoor(app, worker, bell).ring(rings)

    assert bell.rung == rings


def test_what_did_not_come_to_begin_is_passed_on_to_the_broker_once() -> None:
    worker, bell, rings = Worker(4), NotingBell(), doorbells(3)
    door = OwnDoor(app, worker, bell)
    door.ring(rings)
    worker.taken[1].ack()  # its run is about to begin

    assert door.pass_on() == []
    assert door.pass_on() == []

    assert bell.rung == [rings[0], rings[2]]


def test_what_a_rate_limit_holds_up_takes_a_slot() -> None:
    worker, bell, rings = Worker(4), NotingBell(), doorbells(6)
    door = OwnDoor(app, worker, bell)

    door.ring(rings[:3])  # taken, and never reserved
    door.ring(rings[3:])

    assert len(worker.taken) == 3
    assert bell.rung == rings[3:]
