"""Workers that are stopped, killed, cut off from their broker, or given what they cannot read."""

import asyncio
import json
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import Live, build, ingest, until

from workers.aside import Aside
from workers.ledger import JobState, Outcome
from workers.testing import RedisServer

MakeLive = Callable[..., Live]
POOLS = ("threads", "prefork", "solo")


def _message(
    *, body: str, headers: dict[str, object] | None = None, content_type: str = "application/json"
) -> bytes:
    """What Kombu would take for a message."""
    route = {"exchange": "", "routing_key": "tinymemory.ingest"}
    message = {
        "body": body,
        "content-type": content_type,
        "content-encoding": "utf-8",
        "headers": headers or {"task": "tinymemory.build_beliefs", "id": "x"},
        "properties": {"delivery_tag": f"tag {body}", "body_encoding": "base64", "delivery_info": route},
    }
    return json.dumps(message).encode()


@pytest.mark.parametrize("pool", POOLS)
async def test_every_pool_runs_both_kinds_of_job_and_stops_with_exit_code_0(
    live: MakeLive, pool: str
) -> None:
    layer = live()
    worker = layer.programs.start("worker", "--pool", pool, "-c", "2")
    keys = [(await layer.one(ingest(f"t{n}"), root=f"team:p{n}")).key for n in range(4)]
    keys += [(await layer.one(build(f"team:p{n}/agent:a"), root=f"team:p{n}")).key for n in range(4)]
    await layer.sweep()
    statuses = await layer.wait_over(*keys)

    assert {status.state for status in statuses} == {JobState.DONE}
    assert worker.terminate() == 0
    assert "event loop is closed" not in worker.log.lower()
    assert "Traceback" not in worker.log


@pytest.mark.parametrize("pool", ["threads", "prefork"])
async def test_what_is_due_at_once_reaches_a_free_worker_without_a_message(live: MakeLive, pool: str) -> None:
    layer = live()
    worker = layer.programs.start("worker", "--pool", pool, "-c", "4")
    await until(lambda: bool(layer.redis.pubsub_numsub("{tinymemory}:due")[0][1]))

    keys = [(await layer.one(ingest(f"t{n}"), root="team:near")).key for n in range(3)]
    statuses = await layer.wait_over(*keys)

    assert {status.state for status in statuses} == {JobState.DONE}
    assert "cmdstat_lpush" not in layer.redis.info("commandstats")
    assert worker.terminate() == 0


@pytest.mark.parametrize("pool", ["threads", "prefork"])
@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGQUIT])
async def test_what_a_stopping_worker_took_and_did_not_begin_is_another_workers_at_once(
    live: MakeLive, pool: str, stop: signal.Signals
) -> None:
    layer = live(doorbell_lease=900.0, shutdown_grace=0.2)
    layer.stub.behave(sleep=60.0)
    worker = layer.programs.start("worker", "--pool", pool, "-c", "8")
    await until(lambda: bool(layer.redis.pubsub_numsub("{tinymemory}:due")[0][1]))
    # A rate limit keeps what was taken waiting in the worker for as long as the test needs.
    layer.programs.celery("control", "rate_limit", "tinymemory.ingest_brain", "1/m")
    keys = [(await layer.one(ingest(f"t{n}"), root=f"team:taken{n}")).key for n in range(4)]
    await until(lambda: len(layer.stub.calls("store")) == 1)
    layer.stub.behave(sleep=0.0)

    worker.signal(stop)
    await asyncio.to_thread(worker.process.wait, 30.0)
    layer.programs.start("worker", "--pool", pool, "-c", "8")
    statuses = await layer.wait_over(*keys, seconds=10.0)

    assert {status.state for status in statuses} == {JobState.DONE}
    assert "Traceback" not in worker.log


@pytest.mark.parametrize("pool", ["threads", "prefork"])
async def test_r04_a_worker_takes_work_again_after_its_broker_went_away(
    live: MakeLive, own_redis: RedisServer, pool: str
) -> None:
    layer = live()
    worker = layer.programs.start("worker", "--pool", pool, "-c", "2")
    first = await layer.one(ingest("before"), root="team:r04")
    await layer.sweep()
    await layer.wait_over(first.key)

    layer.redis.client_kill_filter(_type="normal", skipme=True)
    for _ in range(3):
        own_redis.kill()
        own_redis.start()
        await asyncio.sleep(0.5)
    (second,) = await layer.enqueue(ingest("after"), root="team:r04")
    await layer.sweep()
    await layer.wait_over(second.key, seconds=30.0)

    assert worker.is_running
    health = await asyncio.to_thread(layer.programs.run, "health")
    assert health.returncode == 0, health.stderr


async def test_r07_a_run_that_ends_within_the_grace_ends_once_and_the_worker_soon_after(
    live: MakeLive,
) -> None:
    layer = live(shutdown_grace=20.0)
    layer.stub.behave(sleep=1.5)
    worker = layer.programs.start("worker")
    (enqueued,) = await layer.enqueue(build("team:r07/agent:a"), root="team:r07")
    await layer.sweep()
    await until(lambda: len(layer.stub.calls()) == 1)

    started = time.monotonic()
    code = await asyncio.to_thread(worker.terminate)

    assert code == 0
    assert time.monotonic() - started < 10.0
    assert await layer.state(enqueued.key) is JobState.DONE
    assert len(layer.stub.calls()) == 1


@pytest.mark.parametrize("pool", POOLS)
async def test_a_run_that_outlives_the_grace_goes_back_to_waiting_due_at_once_and_uncounted(
    live: MakeLive, pool: str
) -> None:
    layer = live(shutdown_grace=0.5)
    layer.stub.behave(sleep=60.0)
    worker = layer.programs.start("worker", "--pool", pool, "-c", "2")
    (enqueued,) = await layer.enqueue(build("team:stop/agent:a"), root="team:stop")
    await layer.sweep()
    await until(lambda: len(layer.stub.calls()) == 1)

    code = await asyncio.to_thread(worker.terminate)

    assert code == 0
    async with layer.ledger() as ledger:
        job = await ledger.show(enqueued.key)
        stats = await ledger.stats()
    assert job is not None
    assert (job.state, job.attempts, job.losses) == (JobState.WAITING, 0, 0)
    assert stats.due == 1
    assert layer.stub.calls(what="CancelledError") != []


async def test_r08_builds_that_wait_are_all_done_on_time_though_the_only_worker_was_stopped(
    live: MakeLive,
) -> None:
    layer = live(build_delay=2.0, shutdown_grace=5.0)
    layer.stub.behave("team:busy", sleep=1.0)
    worker = layer.programs.start("worker")
    layer.programs.start("beat")
    await layer.one(build("team:busy/agent:a"), root="team:busy", delay=0.0)
    keys = [(await layer.one(build(f"team:r08-{n}/agent:a"), root=f"team:r08-{n}")).key for n in range(20)]
    await until(lambda: len(layer.stub.calls(root="team:busy")) == 1)

    assert await asyncio.to_thread(worker.terminate) == 0
    layer.programs.start("worker")
    ready = time.time()
    await layer.wait_over(*keys)

    starts = [call.at for call in layer.stub.calls() if call.root != "team:busy"]
    assert len(starts) == 20
    assert max(starts) - max(ready, min(starts)) < 5.0


async def test_r09_a_cancelled_job_never_runs_whatever_is_restarted(live: MakeLive) -> None:
    layer = live()
    waiting = await layer.one(ingest("waiting"), root="team:r09")
    queued = await layer.one(ingest("queued"), root="team:r09q")
    async with layer.ledger() as ledger:
        await ledger.drop(waiting.key)
        await layer.sweep()
        await ledger.drop(queued.key)

    for _ in range(2):
        worker = layer.programs.start("worker")
        await layer.sweep()
        other = await layer.one(ingest(f"other {time.time()}"), root="team:r09o")
        await layer.sweep()
        await layer.wait_over(other.key)
        worker.kill()

    assert {call.about for call in layer.stub.calls("store")}.isdisjoint({"waiting", "queued"})
    assert await layer.state(waiting.key) is JobState.CANCELLED
    assert await layer.state(queued.key) is JobState.CANCELLED


async def test_a_dropped_run_is_cancelled_and_its_key_is_free_at_once(shared: Live) -> None:
    shared.stub.behave("team:drop", sleep=30.0)
    first = await shared.one(build("team:drop/agent:a"), root="team:drop")
    await until(lambda: len(shared.stub.calls(root="team:drop")) == 1)

    async with shared.ledger() as ledger:
        assert await ledger.drop(first.key) is JobState.RUNNING
    assert await shared.state(first.key) is JobState.CANCELLED
    await until(lambda: len(shared.stub.calls(what="CancelledError", root="team:drop")) == 1, 10.0)
    shared.stub.behave("team:drop", sleep=0.0)
    again = await shared.one(build("team:drop/agent:a"), root="team:drop")
    await shared.wait_over(again.key)

    assert again.state == "new"
    assert [run.outcome for run in await shared.history(first.key)] == [Outcome.CANCELLED, Outcome.DONE]


async def test_r10_no_job_waits_behind_a_long_one_while_another_worker_is_idle(live: MakeLive) -> None:
    layer = live(root_concurrency=20, lease=20.0)
    layer.stub.behave("long", sleep=60.0)
    layer.programs.start_together(
        *(("worker", "-n", name, "-c", "1", "-Q", "tinymemory.ingest") for name in ("one@%h", "two@%h"))
    )
    await layer.one(ingest("long"), root="team:long")
    await layer.sweep()
    await until(lambda: len(layer.stub.calls("store")) == 1)

    started = time.monotonic()
    keys = [(await layer.one(ingest(f"quick {n}"), root=f"team:q{n}")).key for n in range(10)]
    await layer.sweep()
    await layer.wait_over(*keys)

    assert time.monotonic() - started < 10.0


@pytest.mark.parametrize(
    "garbage",
    [
        b"\xff\xfe not text",
        b"not json",
        b"[]",
        b"7",
        b"{}",
        b'{"body": "e30=", "properties": {"delivery_tag": "x"}}',
        b'{"body": "e30=", "properties": {"delivery_tag": "x", "delivery_info": {"exchange": 1}}}',
        b'{"body": "!", "properties": {"delivery_tag": "x", "body_encoding": "base64"}}',
        _message(body="W10=", headers={"task": "tinymemory.build_beliefs", "id": "x"}),
        _message(body="", headers={"task": ["a", "list"], "id": "x"}),
        _message(body="gASVBQAAAAAAAABLAS4=", content_type="application/x-python-serialize"),
        b'{"a":' * 3000,
    ],
    ids=range(12),
)
async def test_a_message_nothing_can_decode_is_set_aside_and_the_worker_lives(
    shared: Live, garbage: bytes
) -> None:
    aside = Aside(shared.redis, key_prefix=shared.settings.key_prefix)
    before = aside.total()
    (worker,) = [vital for vital in shared.vitals() if vital.kind == "worker"]

    shared.redis.lpush("tinymemory.ingest", garbage)
    await until(lambda: aside.total() > before)
    after = await shared.one(ingest(f"after {garbage[:5]!r}"), root="team:garbage")
    await shared.wait_over(after.key, seconds=20.0)

    assert aside.total() == before + 1
    assert shared.redis.llen("tinymemory.ingest") == 0
    assert [vital.pid for vital in shared.vitals() if vital.kind == "worker"] == [worker.pid]


async def test_messages_whose_arguments_are_no_key_and_token_take_up_no_slot(live: MakeLive) -> None:
    layer = live(lease=60.0)
    layer.programs.start("worker", "-c", "2")
    for arguments in ([{"a": 1}, 5], ["build:team:a:0", None], [["build:team:a:0"], 1.5], [True, "1"], []):
        layer.app.send_task("tinymemory.ingest_brain", args=arguments, queue="tinymemory.ingest")  # pyright: ignore[reportUnknownMemberType]  # Celery ships no types
    await until(lambda: layer.redis.keys("tinymemory.ingest*") == [])
    after = await layer.one(ingest("after"), root="team:after")

    await layer.wait_over(after.key, seconds=30.0)


async def test_r12_a_message_for_an_unknown_task_is_counted_and_its_job_still_done(live: MakeLive) -> None:
    layer = live(doorbell_lease=1.0)
    enqueued = await layer.one(ingest("renamed"), root="team:r12")
    async with layer.ledger() as ledger:
        # Before there is a worker, which would hear of it and claim it first.
        (doorbell,) = (await ledger.claim("tinymemory.ingest")).doorbells
    worker = layer.programs.start("worker")
    layer.app.send_task(  # pyright: ignore[reportUnknownMemberType]  # Celery ships no types
        "tinymemory.ingest_documents",
        args=[doorbell.lease.key, doorbell.lease.token],
        task_id=doorbell.lease.task_id,
        queue="tinymemory.ingest",
        ignore_result=True,
    )
    aside = Aside(layer.redis, key_prefix=layer.settings.key_prefix)
    await until(lambda: aside.total() == 1)
    assert "message_set_aside" in worker.log

    layer.programs.start("beat")
    await layer.wait_over(enqueued.key)


async def test_r15_forked_workers_open_their_own_clients_though_the_parent_touched_its_own(
    live: MakeLive,
) -> None:
    layer = live()
    layer.programs.start(
        "worker", "--pool", "prefork", "-c", "4", TINYMEMORY_ENGINE_FACTORY="stub_engine:warmed"
    )
    keys: list[str] = []
    for n in range(8):
        keys.append((await layer.one(ingest(f"d{n}"), root=f"team:r15-{n}")).key)
        keys.append((await layer.one(build(f"team:r15-{n}/agent:a"), root=f"team:r15-{n}")).key)
    await layer.sweep()
    statuses = await layer.wait_over(*keys)

    assert {status.state for status in statuses} == {JobState.DONE}


async def test_r28_after_a_hard_kill_the_next_build_starts_within_the_lease(live: MakeLive) -> None:
    layer = live(lease=2.0)
    layer.stub.behave(exit=True, sleep=0.2)
    layer.programs.start_together(("worker", "--pool", "prefork", "-c", "1"), ("beat",))
    (enqueued,) = await layer.enqueue(build("team:r28/agent:a"), root="team:r28")
    await until(lambda: len(layer.stub.calls()) == 1)
    killed = time.time()
    layer.stub.behave(sleep=0.0)

    merged = await layer.one(build("team:r28/agent:a"), root="team:r28")
    assert merged.state in ("rerun", "merged")
    assert await layer.state(enqueued.key) in (JobState.RUNNING, JobState.WAITING)
    await until(lambda: len(layer.stub.calls()) == 2)

    assert layer.stub.calls()[1].at - killed < layer.settings.lease + 5.0


async def test_r32_a_frozen_workers_late_end_changes_nothing(live: MakeLive) -> None:
    layer = live(lease=1.5)
    layer.stub.behave(sleep=2.5)
    slow = layer.programs.start("worker", "-n", "slow@%h")
    (enqueued,) = await layer.enqueue(build("team:r32/agent:a"), root="team:r32")
    await layer.sweep()
    await until(lambda: len(layer.stub.calls()) == 1)

    slow.freeze()
    layer.stub.behave(sleep=0.0)
    layer.programs.start_together(("worker", "-n", "quick@%h"), ("beat",))
    await layer.wait_over(enqueued.key)
    before = await layer.history(enqueued.key)
    slow.thaw()
    await until(lambda: "run_overruled" in slow.log)

    assert [run.worker.split("@")[0] for run in before if run.worker] == ["slow", "quick"]
    assert await layer.history(enqueued.key) == before
    assert await layer.state(enqueued.key) is JobState.DONE


async def test_a_run_longer_than_its_lease_keeps_it_by_renewing(live: MakeLive) -> None:
    layer = live(lease=1.0)
    layer.stub.behave(sleep=4.0)
    layer.programs.start("worker", "-n", "one@%h")
    layer.programs.start_together(("worker", "-n", "two@%h"), ("beat",))
    (enqueued,) = await layer.enqueue(build("team:long/agent:a"), root="team:long")
    await layer.wait_over(enqueued.key)

    assert [run.outcome for run in await layer.history(enqueued.key)] == [Outcome.DONE]


async def test_a_run_longer_than_job_timeout_is_an_attempt_that_failed(live: MakeLive) -> None:
    layer = live(job_timeout=0.5, max_attempts=2)
    layer.stub.behave(sleep=30.0)
    layer.programs.start_together(("worker",), ("beat",))
    (enqueued,) = await layer.enqueue(build("team:slow/agent:a"), root="team:slow")
    await layer.wait_over(enqueued.key)

    runs = await layer.history(enqueued.key)
    assert [run.outcome for run in runs] == [Outcome.RETRY, Outcome.DEAD]
    assert runs[-1].error is not None
    assert runs[-1].error.message == "the run took longer than 0.5 s"


async def test_a_worker_told_to_quit_hands_its_runs_back_at_once(live: MakeLive) -> None:
    layer = live(shutdown_grace=60.0)
    layer.stub.behave(sleep=60.0)
    worker = layer.programs.start("worker")
    (enqueued,) = await layer.enqueue(build("team:quit/agent:a"), root="team:quit")
    await layer.sweep()
    await until(lambda: len(layer.stub.calls()) == 1)

    worker.signal(signal.SIGQUIT)
    await asyncio.to_thread(worker.process.wait, 30.0)

    assert await layer.state(enqueued.key) is JobState.WAITING


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"visibility_timeout": 5.0, "job_timeout": 5.0}, "visibility timeout"),
        ({"engine_factory": "stub_engine:nothing"}, "stub_engine:nothing"),
        ({"engine_factory": None, "engine": "cortex"}, "there is no engine `cortex`"),
    ],
    ids=["visibility", "factory", "engine"],
)
async def test_a_worker_refuses_settings_that_lose_or_double_jobs(
    live: MakeLive, settings: dict[str, object], says: str
) -> None:
    layer = live(**settings)
    worker = layer.programs.start("worker", wait=False)

    code = await asyncio.to_thread(worker.process.wait, 40.0)

    assert code == 78
    assert says in worker.log


async def test_a_worker_refuses_a_redis_that_may_drop_keys(live: MakeLive) -> None:
    layer = live()
    layer.redis.config_set("maxmemory-policy", "allkeys-lru")
    worker = layer.programs.start("worker", wait=False)

    code = await asyncio.to_thread(worker.process.wait, 40.0)

    assert code == 78
    assert "set it to noeviction" in worker.log


async def test_a_worker_that_starts_before_its_redis_waits_for_it(
    live: MakeLive, own_redis: RedisServer
) -> None:
    layer = live()
    own_redis.stop()
    worker = layer.programs.start("worker", wait=False)
    await until(lambda: "broker_unreachable" in worker.log)
    own_redis.start()
    worker.wait_for(" ready.", 30.0)

    (enqueued,) = await layer.enqueue(ingest("late"), root="team:late")
    await layer.sweep()
    await layer.wait_over(enqueued.key)


async def test_r03_a_worker_holds_nothing_of_what_waits(live: MakeLive) -> None:
    layer = live()
    worker = layer.programs.start("worker")
    warm = await layer.one(ingest("warm"), root="team:warm")
    await layer.sweep()
    await layer.wait_over(warm.key)
    before = _resident_bytes(worker.pid)

    for n in range(5):
        await layer.enqueue(
            *(build(f"team:r03-{n}/agent:a{m}") for m in range(1000)), root=f"team:r03-{n}", delay=600.0
        )
        await layer.sweep()
    report = await layer.sweep()
    await asyncio.sleep(1.0)

    assert report.claimed == 0
    assert sum(layer.redis.llen(key) for key in layer.redis.keys("tinymemory.beliefs*")) == 0
    assert _resident_bytes(worker.pid) - before < 20 * 1024 * 1024


async def test_r13_a_stalled_broker_stalls_no_sweep(live: MakeLive) -> None:
    layer = live()
    await layer.one(ingest("stalled"), root="team:r13")
    layer.redis.client_pause(30_000, all=False)

    started = time.monotonic()
    done = await asyncio.to_thread(layer.programs.run, "sweep")
    layer.redis.client_unpause()

    assert time.monotonic() - started < 25.0
    assert done.returncode == 75
    report = await layer.sweep()
    assert report.published == 1


def _resident_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024
