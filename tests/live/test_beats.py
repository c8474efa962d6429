"""Beats that die, freeze, double, restart too often, or ask where nobody answers."""

import asyncio
import time
from collections.abc import Callable

from harness import Live, build, ingest, until

from tinymemory.engines.sqlite import SqliteEngine
from tinymemory.layout import MemoryLayout
from tinymemory.lifecycle import AgentMemory
from tinymemory.namespace import Namespace, Reach
from workers.identity import job_key
from workers.ledger import JobState
from workers.testing import RedisServer

MakeLive = Callable[..., Live]


async def test_r20_beats_that_lose_their_lock_or_freeze_neither_end_nor_double_a_build(
    live: MakeLive,
) -> None:
    layer = live()
    _, *beats = layer.programs.start_together(("worker",), ("beat",), ("beat",))
    await until(lambda: any(vital.leads for vital in layer.vitals()))

    layer.redis.delete("{tinymemory}:beat:leader")
    leader = next(beat for beat in beats if beat.pid in {v.pid for v in layer.vitals() if v.leads})
    leader.freeze()
    keys = [(await layer.one(build(f"team:r20-{n}/agent:a"), root=f"team:r20-{n}")).key for n in range(5)]
    frozen_at = time.monotonic()
    await layer.wait_over(*keys)
    took = time.monotonic() - frozen_at
    leader.thaw()
    await asyncio.sleep(10 * layer.settings.sweep_interval)

    assert took < 2 * layer.settings.sweep_interval + 5.0
    assert all(beat.is_running for beat in beats)
    assert len(layer.stub.calls()) == 5


async def test_r22_sweeps_do_not_pile_up_while_no_worker_runs(live: MakeLive) -> None:
    layer = live(sweep_interval=0.1, reap_interval=0.1, probe_interval=0.1, doorbell_lease=0.5)
    beat = layer.programs.start("beat")
    keys = [(await layer.one(build(f"team:r22-{n}/agent:a"), root=f"team:r22-{n}")).key for n in range(5)]

    def waiting() -> int:
        queues = ("beliefs", "ingest", "control")
        return sum(
            layer.redis.llen(key) for name in queues for key in layer.redis.keys(f"tinymemory.{name}*")
        )

    await until(lambda: "nobody_takes_periodic_tasks" in beat.log)
    deepest = 0
    for _ in range(60):
        deepest = max(deepest, waiting())
        await asyncio.sleep(0.1)
    layer.programs.start("worker")
    await layer.wait_over(*keys)

    assert deepest <= 10
    assert len(layer.stub.calls()) == 5


async def test_a_beat_that_restarts_more_often_than_the_interval_still_sweeps(live: MakeLive) -> None:
    layer = live(sweep_interval=6.0, reap_interval=60.0, probe_interval=60.0)
    layer.programs.start("worker")
    enqueued = await layer.one(ingest("restless"), root="team:restless")
    started = time.monotonic()
    while await layer.state(enqueued.key) is not JobState.DONE:
        assert time.monotonic() - started < 30.0
        beat = layer.programs.start("beat")
        await asyncio.sleep(1.0)
        beat.kill()


async def test_a_beat_outlives_its_redis_and_schedules_again_when_all_of_it_is_gone(
    live: MakeLive, own_redis: RedisServer
) -> None:
    layer = live()
    own_redis.stop()
    beat = layer.programs.start("beat", wait=False)
    await until(lambda: "beat_without_redis" in beat.log)
    own_redis.start()
    layer.programs.start("worker")
    first = await layer.one(ingest("first"), root="team:beat")
    await layer.wait_over(first.key)

    layer.redis.flushall()
    second = await layer.one(ingest("second"), root="team:beat")
    await layer.wait_over(second.key)

    assert beat.is_running
    assert beat.terminate() == 0


async def test_r44_what_a_lost_ledger_owed_is_built_when_the_engine_knows_of_it(live: MakeLive) -> None:
    layer = live(engine_factory=None, engine="sqlite")
    memory = AgentMemory(
        SqliteEngine(layer.settings.data_dir / "memory.db"),
        MemoryLayout(Namespace.parse("team:r44")),
        "support",
    )
    async with memory.engine:
        await memory.post_turn("thread", 0, "The office opens at nine.")
        await layer.one(memory.history_build(), root="team:r44", delay=600.0)
        layer.redis.flushall()

        layer.programs.start_together(("worker",), ("beat",))
        key = job_key("team:r44", "default", memory.history_build())

        async def is_built() -> bool:
            return await layer.state(key) is JobState.DONE

        await until(is_built)
        assert await memory.engine.unbuilt(Reach.subtree(memory.layout.root)) == []
