"""A beat ends when it is told to, also where Python drops the exception that tells it."""

import os
import signal
import threading
import weakref
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery

from scheduler.ending import EndingBeat


class Thing:
    """Something a weak reference can be of."""


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """The process's own handlers come back behind each test."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


def service_of(tick: Callable[[], float]) -> Any:
    """What Celery's beat has of a service, as far as its stop goes."""
    service: Any = SimpleNamespace(_is_shutdown=threading.Event(), scheduler=SimpleNamespace(tick=tick))
    EndingBeat(app=Celery("beats", set_as_current=False)).install_sync_handler(service)
    return service


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_sleeping_beat_at_once(number: signal.Signals) -> None:
    service = service_of(lambda: 30.0)

    assert service.scheduler.tick() == 30.0
    with pytest.raises(SystemExit):
        os.kill(os.getpid(), number)

    assert service._is_shutdown.is_set()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_signal_that_comes_while_a_weak_reference_dies_ends_the_beat_behind_its_tick() -> None:
    def tick() -> float:
        thing = Thing()
        reference = weakref.ref(thing, lambda _: os.kill(os.getpid(), signal.SIGTERM))
        del thing
        assert reference() is None
        return 30.0

    service = service_of(tick)

    assert service.scheduler.tick() == 0.0  # of which Celery's loop sleeps none, and looks at the event
    assert service._is_shutdown.is_set()
