"""The promises of the job layer, each on real workers and a real Redis."""

import asyncio
import json
import time
from base64 import b64decode
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from harness import Live, build, ingest, most_at_once, until

from tinymemory.errors import InvalidRequestError
from workers.connection import sync_redis
from workers.intake import Intake
from workers.ledger import JobState, NewJob, Outcome
from workers.testing import RedisServer

MakeLive = Callable[..., Live]


async def test_i1_an_enqueue_survives_sigkill_of_the_worker_that_runs_it(live: MakeLive) -> None:
    layer = live()
    layer.stub.behave(sleep=30.0)
    first = layer.programs.start("worker")
    enqueued = await layer.one(build("team:i1/agent:a"), root="team:i1")
    await layer.sweep()
    await until(lambda: len(layer.stub.calls()) == 1)

    first.kill()
    layer.stub.behave(sleep=0.0)
    layer.programs.start_together(("worker",), ("beat",))
    await layer.wait_over(enqueued.key)

    assert [run.outcome for run in await layer.history(enqueued.key)] == [Outcome.LOST, Outcome.DONE]


async def test_i1_a_doorbell_that_is_lost_rings_again_when_its_lease_ends(live: MakeLive) -> None:
    layer = live(doorbell_lease=1.0)
    enqueued = await layer.one(ingest("lost"), root="team:i1")
    assert (await layer.sweep()).published == 1
    layer.redis.delete(*layer.redis.keys("tinymemory.ingest*"))

    layer.programs.start_together(("worker",), ("beat",))
    await layer.wait_over(enqueued.key)

    runs = await layer.history(enqueued.key)
    assert [(run.outcome, run.attempts) for run in runs] == [(Outcome.DONE, 1)]


async def test_i5_doorbells_lost_with_their_broker_hold_up_nobody_until_their_leases_end(
    live: MakeLive, own_redis: RedisServer
) -> None:
    # As many as may be claimed: nothing else of the queue can be before these are begun.
    broker = own_redis.url.replace("/0", "/7")
    layer = live(broker_url=broker, max_in_flight=4, doorbell_lease=600.0)
    keys = [(await layer.one(ingest(f"lost {n}"), root=f"team:lost{n}")).key for n in range(6)]
    assert (await layer.sweep()).published == 4
    with sync_redis(broker) as client:
        client.flushdb()  # pyright: ignore[reportUnknownMemberType]  # redis-py leaves **kwargs untyped
    layer.programs.start_together(("worker",), ("beat",))
    other = (await layer.one(ingest("other"), root="team:other")).key
    statuses = await layer.wait_over(*keys, other)

    assert {status.state for status in statuses} == {JobState.DONE}
    assert [run.attempts for key in keys for run in await layer.history(key)] == [1] * 6


async def test_i1_jobs_outlive_sigkill_of_redis_in_the_middle_of_their_runs(
    live: MakeLive, own_redis: RedisServer
) -> None:
    # A doorbell that Redis had just handed out when it died is lost: its lease brings the job back.
    layer = live(lease=3.0, doorbell_lease=3.0)
    layer.stub.behave(sleep=0.3)
    layer.programs.start_together(("worker", "-c", "2"), ("beat",))
    jobs = [build(f"team:i1-{n}/agent:a") for n in range(8)]
    keys = [(await layer.one(job, root=f"team:i1-{n}")).key for n, job in enumerate(jobs)]
    await until(lambda: len(layer.stub.calls()) >= 2)

    own_redis.kill()
    await asyncio.sleep(1.0)
    own_redis.start()
    statuses = await layer.wait_over(*keys)

    assert {status.state for status in statuses} == {JobState.DONE}


async def test_i1_sweeps_go_on_when_the_beat_is_killed_and_another_runs(live: MakeLive) -> None:
    layer = live()
    layer.programs.start("worker")
    leader = layer.programs.start("beat")
    layer.programs.start("beat")

    leader.kill()
    enqueued = await layer.one(ingest("after"), root="team:i1")
    await layer.wait_over(enqueued.key, seconds=20.0)


async def test_i2_two_workers_never_run_one_key_at_once(live: MakeLive) -> None:
    layer = live(build_delay=0.0)
    layer.stub.behave(sleep=0.05)
    layer.programs.start_together(("worker", "-n", "one@%h"), ("worker", "-n", "two@%h"), ("beat",))
    key = ""
    for _ in range(40):
        key = (await layer.one(build("team:i2/agent:a"), root="team:i2", delay=0.0)).key
        await asyncio.sleep(0.05)
    await layer.wait_over(key)

    calls = layer.stub.calls(what="")
    assert len(calls) >= 4
    assert most_at_once(calls) == 1


async def test_i3_what_is_enqueued_while_the_same_build_runs_is_built_after_it(shared: Live) -> None:
    shared.stub.behave("team:i3", sleep=1.0)
    first = await shared.one(build("team:i3/agent:a"), root="team:i3")
    await until(lambda: len(shared.stub.calls(root="team:i3")) == 1)

    during = await shared.one(build("team:i3/agent:a"), root="team:i3")
    shared.stub.behave("team:i3", sleep=0.0)
    await until(lambda: len(shared.stub.calls(what="end", root="team:i3")) == 2)

    assert (first.state, during.state) == ("new", "rerun")
    begun = [call.at for call in shared.stub.calls(root="team:i3")]
    ended = [call.at for call in shared.stub.calls(what="end", root="team:i3")]
    assert ended[0] <= begun[1]


async def test_i3_an_identical_ingest_that_arrives_while_it_runs_is_not_run_again(shared: Live) -> None:
    shared.stub.behave("team:i3i", sleep=1.0)
    first = await shared.one(ingest("same"), root="team:i3i")
    await until(lambda: len(shared.stub.calls("store", root="team:i3i")) == 1)

    during = await shared.one(ingest("same"), root="team:i3i")
    await shared.wait_over(first.key)

    assert (during.key, during.state) == (first.key, "merged")
    assert len(await shared.history(first.key)) == 1


async def test_i4_no_build_starts_before_its_delay_after_the_last_enqueue(shared: Live) -> None:
    key, last = "", 0.0
    for _ in range(3):
        key = (await shared.one(build("team:i4/agent:a"), root="team:i4", delay=1.0)).key
        last = time.time()
        await asyncio.sleep(0.4)
    await shared.wait_over(key)

    (call,) = shared.stub.calls(root="team:i4")
    assert call.at - last >= 0.99
    (run,) = await shared.history(key)
    assert run.merged == 2


async def test_i5_a_due_job_starts_within_a_sweep_interval_and_two_seconds(shared: Live) -> None:
    due: dict[str, datetime] = {}
    for n in range(5):
        enqueued = await shared.one(build(f"team:i5-{n}/agent:a"), root=f"team:i5-{n}", delay=0.3)
        due[enqueued.key] = enqueued.due_at
        await asyncio.sleep(0.13)
    await shared.wait_over(*due)

    lags = [(await shared.history(key))[0].lag_s for key in due]
    assert max(lags) <= shared.settings.sweep_interval + 2.0


async def test_i6_a_tenant_with_many_builds_does_not_hold_up_another(live: MakeLive) -> None:
    layer = live(max_in_flight=8)
    layer.stub.behave(sleep=0.02)
    await layer.enqueue(*(build(f"team:big/agent:a{n}") for n in range(400)), root="team:big")
    layer.programs.start_together(("worker", "-c", "4"), ("beat",))
    await until(lambda: len(layer.stub.calls()) > 20)

    (small,) = await layer.enqueue(build("team:small/agent:a"), root="team:small")
    before = len(layer.stub.calls())
    await layer.wait_over(small.key)

    starts = [call.root for call in layer.stub.calls()]
    overtaken = starts.index("team:small") - before
    # The sweep sees it within half a second, in which the big tenant goes on; then one round.
    assert overtaken < 120
    assert (await layer.history(small.key))[0].lag_s <= layer.settings.sweep_interval + 2.0
    assert most_at_once(c for c in layer.stub.calls(what="") if c.root == "team:big") <= 4


async def test_i7_a_job_that_reaches_outside_its_root_is_refused_and_dead_if_it_got_in(shared: Live) -> None:
    with pytest.raises(InvalidRequestError, match="outside its root"):
        await shared.one(build("team:other/agent:a"), root="team:i7")

    (honest,) = Intake(shared.settings).new_jobs(build("team:i7/agent:a"), root="team:i7")
    forged = NewJob(
        key=honest.key,
        queue=honest.queue,
        profile="default",
        scope=honest.scope,
        envelope=honest.envelope.replace("team:i7/agent:a", "team:other/agent:a"),
    )
    async with shared.ledger() as ledger:
        await ledger.enqueue([forged])
    (status,) = await shared.wait_over(honest.key)

    assert status.state is JobState.DEAD
    assert shared.stub.calls(root="team:i7") == []
    (run,) = await shared.history(honest.key)
    assert run.error is not None
    assert run.error.kind == "InvalidRequestError"


async def test_i7_each_root_and_profile_has_an_engine_of_its_own(live: MakeLive) -> None:
    layer = live()
    layer.programs.start("worker")
    parties = [("team:a", "default"), ("team:b", "default"), ("team:a", "slow")]
    keys = [
        (await layer.one(build(f"{root}/agent:x"), root=root, profile=profile)).key
        for root, profile in parties
    ]
    async with layer.ledger() as ledger:
        assert set(await ledger.queues()) == {"tinymemory.beliefs", "tinymemory.beliefs.slow"}
    await layer.sweep()

    await until(lambda: len(layer.stub.calls()) == 2)
    seen = {(call.root, call.profile) for call in layer.stub.calls()}
    assert seen == {("team:a", "default"), ("team:b", "default")}
    # Nobody takes the queue of a profile the settings do not name, unless told to.
    layer.programs.start("worker", "-Q", "tinymemory.beliefs.slow", "-n", "slow@%h")
    await layer.wait_over(*keys)
    assert ("team:a", "slow") in {(call.root, call.profile) for call in layer.stub.calls()}


async def test_i8_neither_content_nor_a_secret_leaves_the_ledger(
    own_redis: RedisServer, tmp_path: Path
) -> None:
    secret, content = "s3cretpassword", "Zanzibar"
    with sync_redis(own_redis.url) as client:
        client.config_set("requirepass", secret)  # pyright: ignore[reportUnknownMemberType]  # redis-py leaves **kwargs untyped
    layer = Live(tmp_path, own_redis.url.replace("redis://", f"redis://:{secret}@"), max_attempts=2)
    layer.stub.behave("team:i8", error="EngineError", message=f"refused redis://:{secret}@host/0")
    (enqueued,) = await layer.enqueue(ingest(content, text=content), root="team:i8")
    try:
        assert (await layer.sweep()).published == 1
        messages = [layer.redis.lrange(name, 0, -1) for name in layer.redis.keys("tinymemory.ingest*")]
        bodies = [b64decode(json.loads(message)["body"]) for (message,) in messages]
        worker = layer.programs.start("worker", "-l", "DEBUG", "-n", "i8@%h")
        layer.programs.start("beat", "-l", "DEBUG")
        await layer.wait_over(enqueued.key)
        shown = layer.programs.celery("inspect", "conf", "--json").stdout
        async with layer.ledger() as ledger:
            kept = f"{await ledger.show(enqueued.key)} {await ledger.history()} {await ledger.dead()}"
    finally:
        await layer.aclose()

    assert '"broker_url"' in shown
    logs = [program.log for program in layer.programs.started]
    for text in (*logs, str(messages), str(bodies), shown, kept, repr(layer.settings)):
        assert secret not in text
        assert content not in text
    assert enqueued.key in worker.log


async def test_i9_the_backlog_stays_in_the_ledger(live: MakeLive) -> None:
    layer = live(max_in_flight=5, root_concurrency=100)
    await layer.enqueue(*(build(f"team:i9/agent:a{n}") for n in range(200)), root="team:i9")

    reports = [await layer.sweep() for _ in range(3)]

    waiting = sum(layer.redis.llen(name) for name in layer.redis.keys("tinymemory.beliefs*"))
    assert waiting == 5
    assert [report.claimed for report in reports] == [5, 0, 0]
    assert reports[0].due_left == 195
