"""A worker's signs of life, and what a health check makes of them."""

import os
from types import SimpleNamespace
from typing import Any

import pytest
from redis.asyncio import Redis as AsyncRedis

from tinymemory.errors import EngineError, NotFoundError
from workers.app import JobsApp
from workers.connection import sync_redis
from workers.health import ensure_well
from workers.pulse import STUCK_PULSES, Pulse
from workers.settings import WorkerSettings
from workers.testing import RedisServer
from workers.vitals import Vitals


class LostLinkError(Exception):
    """What the transport would raise."""


class Queue(SimpleNamespace):
    """A queue with messages in it, as Kombu shows it."""

    def __enter__(self) -> "Queue":
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def queue_declare(self, **_: object) -> SimpleNamespace:
        return SimpleNamespace(message_count=self.depth)


@pytest.fixture
def settings(redis: AsyncRedis, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> WorkerSettings:
    monkeypatch.setenv("TINYMEMORY_REDIS_URL", redis_server.url)
    return WorkerSettings.load()


def already_connected(**_: object) -> None:
    """What Kombu does on a link that is up: nothing."""


def consumer_with(depth: int) -> Any:
    return SimpleNamespace(
        app=JobsApp("test", set_as_current=False),
        hostname="w@here",
        task_consumer=SimpleNamespace(queues=[SimpleNamespace(name="tinymemory.ingest")]),
        connection=SimpleNamespace(
            channel=lambda: Queue(depth=depth), channel_errors=(), ensure_connection=already_connected
        ),
        connection_errors=(LostLinkError,),
        pool=SimpleNamespace(num_processes=4),
        timer=SimpleNamespace(),
    )


def beat(pulse: Pulse, consumer: Any) -> None:
    pulse._beat(consumer)  # pyright: ignore[reportPrivateUsage]  # what the timer calls


def test_a_worker_that_takes_nothing_while_messages_wait_says_so_and_reconnects(
    settings: WorkerSettings,
) -> None:
    consumer = consumer_with(depth=3)
    pulse = Pulse(consumer)
    for _ in range(STUCK_PULSES):
        beat(pulse, consumer)

    with pytest.raises(LostLinkError):
        beat(pulse, consumer)

    with pytest.raises(EngineError, match="takes nothing while messages wait"):
        ensure_well(settings, ["worker"])


def test_an_idle_worker_is_well(settings: WorkerSettings) -> None:
    consumer = consumer_with(depth=0)
    pulse = Pulse(consumer)
    for _ in range(2 * STUCK_PULSES):
        beat(pulse, consumer)

    (line,) = ensure_well(settings, ["worker"])

    assert line.startswith("worker w@here: heard of ")
    with pytest.raises(NotFoundError, match="no beat runs"):
        ensure_well(settings, ["beat"])


def test_a_process_that_said_nothing_for_long_is_not_well(
    settings: WorkerSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sync_redis(settings.redis_url) as client:
        Vitals(client, key_prefix=settings.key_prefix).beat_ticked(leads=True)
    monkeypatch.setattr("workers.health.SILENT_SECONDS", -1.0)

    with pytest.raises(EngineError, match=f"beat@.*:{os.getpid()} has said nothing"):
        ensure_well(settings, ["beat"])
