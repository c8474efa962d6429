"""Workers with free slots hear of a queue with a job that may start now, and claim it without a sweep."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from redis.asyncio import Redis

from workers.connection import async_redis
from workers.ledger import Failure, FailureKind, JobError, JobState, Ledger, Party, Success
from workers.ledger.testing import BELIEFS, INGEST, MovableClock, a_build, an_ingest, begin_one
from workers.testing import RedisServer

CHANNEL = "{tinymemory}:due"
Heard = Callable[[], Awaitable[list[str]]]


@pytest.fixture
async def heard(redis: Redis) -> AsyncIterator[Heard]:
    """What was said since the last call, or since the test began."""
    client: Any = redis  # redis-py leaves **kwargs untyped
    async with client.pubsub(ignore_subscribe_messages=True) as ear:
        await ear.subscribe(CHANNEL)

        async def hear() -> list[str]:
            words: list[str] = []
            await client.publish(CHANNEL, "no more")
            while "no more" not in words:
                message = await ear.get_message(timeout=10)
                words += [message["data"]] if message else []
            return sorted(words[:-1])

        yield hear


async def test_i5_an_enqueue_is_heard_of_for_each_queue_with_a_job_that_may_start_now_and_for_no_other(
    ledger: Ledger, heard: Heard
) -> None:
    await ledger.enqueue([a_build(9)])
    await ledger.claim(BELIEFS)
    await heard()

    await ledger.enqueue([a_build(1), a_build(2), an_ingest()])
    await ledger.enqueue([a_build(3, delay=300)])
    # It is in flight, and runs again when that run ends.
    await ledger.enqueue([a_build(9)])

    assert await heard() == [BELIEFS, INGEST]


async def test_i5_what_an_operator_makes_due_is_heard_of(ledger: Ledger, heard: Heard) -> None:
    await ledger.enqueue([a_build(1, delay=300)])
    run = await begin_one(ledger, a_build(2))
    await ledger.fail(run.lease, Failure(FailureKind.PERMANENT, JobError("invalid request", "no such scope")))
    await heard()

    await ledger.run_now(a_build(1).key)
    assert await heard() == [BELIEFS]
    assert await ledger.retry([run.lease.key]) == [True]
    assert await heard() == [BELIEFS]
    await ledger.retry([a_build(3).key])
    await ledger.run_now(a_build(3).key)
    assert await heard() == []


async def test_i5_what_a_breaker_held_is_heard_of_when_it_closes(
    ledger: Ledger, heard: Heard, clock: MovableClock
) -> None:
    run = await begin_one(ledger, a_build(1))
    await ledger.fail(run.lease, Failure(FailureKind.CREDENTIAL, JobError("engine error", "no credits")))
    await ledger.enqueue([a_build(2), a_build(3)])
    await ledger.claim(BELIEFS)
    await heard()

    await ledger.close_breaker("default", "team:a")

    assert await heard() == [BELIEFS]
    [doorbell] = (await ledger.claim(BELIEFS)).doorbells
    assert doorbell.root == "team:a"


async def test_i5_what_a_lost_worker_left_is_heard_of(
    ledger: Ledger, heard: Heard, clock: MovableClock
) -> None:
    await begin_one(ledger, a_build(1))
    await ledger.enqueue([an_ingest()])
    await ledger.claim(INGEST)
    await heard()

    await clock.advance(3600)
    await ledger.reap()

    assert await heard() == [BELIEFS, INGEST]


async def test_what_is_unparked_for_later_is_not_heard_of(ledger: Ledger, heard: Heard) -> None:
    run = await begin_one(ledger, a_build(1))
    await ledger.enqueue([a_build(1, delay=300)])
    await ledger.fail(run.lease, Failure(FailureKind.CREDENTIAL, JobError("engine error", "no credits")))
    assert await ledger.show(a_build(1).key)
    await heard()

    assert await ledger.close_breaker("default", "team:a") == 1

    job = await ledger.show(a_build(1).key)
    assert job is not None
    assert job.state is JobState.WAITING
    assert await heard() == []


async def test_i5_what_a_trial_held_back_is_heard_of_when_a_run_passes_it(
    ledger: Ledger, heard: Heard
) -> None:
    await ledger.open_breaker(Party("team:a", "default"), "refused", whole_profile=True)
    await ledger.close_breaker("default", None)
    await ledger.enqueue([a_build(n, root) for n in (1, 2) for root in ("team:a", "team:b")])
    leases = [doorbell.lease for doorbell in (await ledger.claim(BELIEFS)).doorbells]
    await ledger.claim(BELIEFS)
    for lease in leases:
        await ledger.begin(lease, worker="w")
    await heard()

    await ledger.settle(leases[0], Success())
    passed = await heard()
    await ledger.settle(leases[1], Success())

    assert len(leases) == 2
    assert passed == [BELIEFS]
    # Whoever ends a run claims the next one itself.
    assert await heard() == []


async def test_where_redis_grants_no_channel_nobody_hears_and_nothing_stops_halfway(
    redis: Redis, redis_server: RedisServer, ledger: Ledger
) -> None:
    # A user made with keys and commands alone, as `acl-pubsub-default` has it.
    await redis.execute_command("ACL SETUSER", "mute", "on", ">pw", "~{tinymemory}:*", "+@all")  # pyright: ignore[reportUnknownMemberType]  # redis-py leaves **options untyped
    try:
        async with async_redis(redis_server.url.replace("//", "//mute:pw@")) as client:
            [enqueued] = await Ledger(client).enqueue([an_ingest()])
    finally:
        await redis.execute_command("ACL DELUSER", "mute")  # pyright: ignore[reportUnknownMemberType]  # as above

    assert enqueued.state == "new"
    assert (await ledger.stats()).waiting == 1
