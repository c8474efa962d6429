"""Jobs whose records somebody took away or wrote over, by hand or by mistake, under running workers."""

from collections.abc import Callable

import pytest
from harness import Live, build, ingest, until

from workers.ledger import JobState

MakeLive = Callable[..., Live]


@pytest.mark.parametrize("with_garbage", [False, True])
async def test_jobs_whose_hashes_are_gone_run_all_the_same_and_hold_up_no_other_tenant(
    live: MakeLive, with_garbage: bool
) -> None:
    layer = live(probe_cap=1.0)
    layer.stub.behave("team:running", sleep=60.0)
    layer.stub.behave("team:parked", error="UnauthorizedError", health="down")
    layer.programs.start("worker", "-c", "4")
    running = (await layer.one(build("team:running/agent:a"), root="team:running")).key
    parked = (await layer.one(ingest("parked"), root="team:parked")).key
    queued = (await layer.one(build("team:q/agent:a"), root="team:q", profile="slow")).key
    await layer.sweep()
    waiting = [(await layer.one(build(f"team:w/agent:{n}"), root="team:w", delay=1.0)).key for n in "ab"]
    await until(lambda: len(layer.stub.calls(root="team:running")) == 1)
    async with layer.ledger() as ledger:

        async def is_parked() -> bool:
            return (await ledger.status(parked)).state is JobState.PARKED

        await until(is_parked)
        assert (await ledger.status(queued)).state is JobState.QUEUED

    for key in (running, parked, queued, *waiting):
        layer.redis.delete(f"{{tinymemory}}:job:{key}")
        if with_garbage:
            layer.redis.set(f"{{tinymemory}}:job:{key}", "garbage")
    layer.redis.zadd("{tinymemory}:queued:tinymemory.beliefs.slow", {queued: 1}, xx=True)
    layer.stub.behave("team:running", sleep=0.0)
    layer.stub.behave("team:parked", health="ok")
    layer.programs.start_together(("beat",), ("worker", "-Q", "tinymemory.beliefs.slow"))
    others = [(await layer.one(build(f"team:o{n}/agent:a"), root=f"team:o{n}")).key for n in range(5)]
    await layer.wait_over(*others)

    async def is_done(key: str) -> bool:
        return await layer.state(key) is JobState.DONE

    for key in (running, parked, queued, *waiting):
        await until(lambda key=key: is_done(key))
    assert not any("ResponseError" in program.log for program in layer.programs.started)
    async with layer.ledger() as ledger:
        stats = await ledger.stats()
    assert (stats.waiting, stats.queued, stats.running, stats.parked) == (0, 0, 0, 0)
    assert layer.redis.keys("{tinymemory}:held:*") == []
