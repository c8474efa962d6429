"""The worker's link to the broker."""

# pyright: reportUnknownMemberType=false
# Celery and Kombu ship no types.

from collections.abc import Callable
from typing import Any

import pytest
from kombu.connection import Connection

from workers.app import app
from workers.consumer import Consumer, telling


@pytest.mark.filterwarnings("ignore::celery.exceptions.CPendingDeprecationWarning")
@pytest.mark.parametrize("trips", [False, True])
def test_a_link_that_cannot_even_be_closed_ends_no_worker(
    monkeypatch: pytest.MonkeyPatch, trips: bool
) -> None:
    def close(_: Connection) -> None:
        if trips:  # as Kombu does when a message was not acknowledged
            raise AttributeError("'NoneType' object has no attribute 'hostname'")

    monkeypatch.setattr(Connection, "close", close)
    consumer: Any = object.__new__(Consumer)
    consumer.app, consumer.connection = app, Connection("memory://")

    consumer.on_connection_error_after_connected(ConnectionResetError())

    assert consumer.connection is None  # so that the next start makes another one


def test_a_thread_that_has_ended_its_task_says_so() -> None:
    said: list[str] = []

    def apply_async(target: Callable[[], object], *, callback: Callable[[object], object]) -> None:
        callback(target())

    def fail(result: object) -> None:
        raise ValueError(result)

    apply = telling(apply_async, lambda: said.append("free"))
    apply(lambda: "result", callback=said.append)
    with pytest.raises(ValueError, match="bad"):
        apply(lambda: "bad", callback=fail)

    assert said == ["result", "free", "free"]
