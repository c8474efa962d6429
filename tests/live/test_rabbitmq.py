"""RabbitMQ as the broker; the ledger stays in Redis."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import Live, build, ingest, until
from kombu.connection import Connection
from rabbit import RabbitServer

from workers.aside import Aside
from workers.ledger import JobState
from workers.testing import RedisServer


@pytest.fixture(scope="module")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitServer]:
    with RabbitServer(tmp_path_factory.mktemp("rabbit")) as server:
        yield server


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rabbit-live")


@pytest.fixture(scope="module")
def running(rabbitmq: RabbitServer, live_redis: RedisServer, folder: Path) -> Iterator[None]:
    """A worker and a beat on it, for all tests of this module."""
    layer = _layer(rabbitmq, live_redis, folder)
    with layer.programs as programs:
        programs.start_together(("worker", "-n", "rabbit@%h"), ("beat",))
        layer.redis.close()
        yield


@pytest.fixture
async def layer(
    rabbitmq: RabbitServer, live_redis: RedisServer, folder: Path, running: None
) -> AsyncIterator[Live]:
    made = _layer(rabbitmq, live_redis, folder)
    yield made
    await made.aclose()


def _layer(rabbitmq: RabbitServer, live_redis: RedisServer, folder: Path) -> Live:
    ledger = live_redis.url.replace("/0", "/5")
    return Live(folder, ledger, broker_url=rabbitmq.url, key_prefix="{rabbit}:")


async def test_both_kinds_of_job_run(layer: Live) -> None:
    keys = [(await layer.one(ingest(f"r{n}"), root=f"team:rabbit{n}")).key for n in range(10)]
    keys += [
        (await layer.one(build(f"team:rabbit{n}/agent:a"), root=f"team:rabbit{n}")).key for n in range(10)
    ]
    statuses = await layer.wait_over(*keys)

    assert {status.state for status in statuses} == {JobState.DONE}


async def test_what_nothing_can_decode_is_set_aside_and_the_worker_lives(layer: Live) -> None:
    aside = Aside(layer.redis, key_prefix=layer.settings.key_prefix)
    before = aside.total()
    with Connection(layer.settings.broker_url) as connection:
        queue = "tinymemory.ingest"
        producer: Any = connection.Producer()  # pyright: ignore[reportUnknownMemberType]  # kombu ships no types
        producer.publish(b"\xff\xfe", routing_key=queue, content_type="application/octet-stream")
        producer.publish("[", routing_key=queue, content_type="application/json")
        producer.publish(
            b"\x80",
            routing_key=queue,
            content_type="application/x-python-serialize",
            headers={"task": "tinymemory.ingest_brain", "id": "x"},
        )
    await until(lambda: aside.total() == before + 3)
    after = await layer.one(ingest("after garbage"), root="team:after")
    await layer.wait_over(after.key)

    assert [vital.name.split("@")[0] for vital in layer.vitals() if vital.kind == "worker"] == ["rabbit"]


async def test_r10_no_job_waits_behind_a_long_one_while_another_worker_is_idle(layer: Live) -> None:
    only = ("-c", "1", "-Q", "tinymemory.ingest.slow")
    layer.stub.behave("long", sleep=60.0)
    layer.programs.start_together(("worker", "-n", "one@%h", *only), ("worker", "-n", "two@%h", *only))
    await layer.one(ingest("long"), root="team:long", profile="slow")
    await until(lambda: any(call.about == "long" for call in layer.stub.calls("store")))

    started = time.monotonic()
    keys = [(await layer.one(ingest(f"q{n}"), root=f"team:q{n}", profile="slow")).key for n in range(10)]
    await layer.wait_over(*keys)
    took = time.monotonic() - started
    for program in layer.programs.started:
        program.kill()

    assert took < 10.0


async def test_r04_workers_and_beat_go_on_after_the_node_was_killed(
    layer: Live, rabbitmq: RabbitServer
) -> None:
    rabbitmq.kill()
    enqueued = await layer.one(ingest("while away"), root="team:away")
    report = await layer.sweep()
    await asyncio.to_thread(rabbitmq.start)
    await layer.wait_over(enqueued.key, seconds=60.0)

    assert not report.broker_answers
    assert report.published == 0
