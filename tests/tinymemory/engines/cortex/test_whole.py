"""§9 items 151, 152 and 155: the promises as a whole, a session, and ten thousand turns."""

import asyncio
import gc
import os
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tinymemory import (
    AgentMemory,
    Conversation,
    ListRequest,
    MemoryLayout,
    MemoryMeta,
    MetaFilter,
    Reach,
    Turn,
)
from tinymemory.background import BackgroundRunner
from tinymemory.conformance import run
from tinymemory.engine import WaitFor
from tinymemory.engines.cortex import CortexEngine
from tinymemory.items import Role
from tinymemory.testing import CortexServer

Connect = Callable[..., CortexEngine]
direct_only = pytest.mark.parametrize("wire", ["direct"])


async def test_the_conformance_suite_passes(engine: CortexEngine) -> None:
    # §9 item 151
    await run(engine)


@direct_only
async def test_the_agent_lifecycle_runs_a_session_with_builds_due_after_the_extraction_delay(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 152
    server.knobs.extraction_delay = 120.0
    layout = MemoryLayout()
    agent = AgentMemory(engine, layout, "writer")
    assert (await agent.start_session()).markdown == ""
    jobs: list[Any] = []
    for index in range(0, 20, 2):
        turn = await agent.pre_turn("thread-1", index, f"when does train {index} leave")
        assert turn.logged is not None
        report = await agent.post_turn("thread-1", index + 1, f"train {index} leaves at 21:{index:02}")
        jobs += report.jobs
    pack = await agent.recall("when does train 18 leave")
    assert "when does train 18 leave" in pack.markdown

    assert len(jobs) == 2
    runner = BackgroundRunner(engine, layout)
    early = await runner.run(jobs[-1])
    server.clock.advance(120.0)
    late = await runner.run(jobs[-1])

    assert early.consolidation is not None
    assert early.consolidation.built == 0
    assert late.consolidation is not None
    assert late.consolidation.built == 20
    resumed = await agent.start_session("thread-1", focus="when do trains leave")
    assert "Earlier in this thread" in resumed.markdown


def resident() -> int:
    """Bytes of memory this process holds."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@direct_only
@pytest.mark.timeout(300)
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="reads the memory in use from /proc")
async def test_ten_thousand_turns_leave_memory_and_connections_flat(connect: Connect) -> None:
    # §9 item 155
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(
            202, json={"event_id": "evt", "replayed_from_idempotency": False, "caller": "me"}
        )

    async def log_turns(engine: CortexEngine, first: int, last: int) -> None:
        for index in range(first, last):
            turn = Conversation(
                turns=(Turn(role=Role.USER, text=f"turn number {index}"),),
                meta=MemoryMeta.model_validate(
                    {
                        "namespace": "agent:a",
                        "thread_id": f"thread-{index}",
                        "turns": {"first": index, "last": index},
                    }
                ),
            )
            await engine.store_with(turn, WaitFor.ACCEPTED)

    async with connect("https://h", http=httpx.MockTransport(answer)) as engine:
        await log_turns(engine, 0, 1000)
        gc.collect()
        before, tasks = resident(), len(asyncio.all_tasks())
        await log_turns(engine, 1000, 11_000)
        gc.collect()

        assert len(asyncio.all_tasks()) == tasks
        assert resident() - before < 8 * 1024 * 1024


@direct_only
async def test_many_calls_share_a_few_connections(server: CortexServer, engine: CortexEngine) -> None:
    # §9 item 155
    for _ in range(50):
        await asyncio.gather(*(engine.list(ListRequest(filter=MetaFilter(reach=Reach()))) for _ in range(4)))

    pool: Any = engine._transport.pool._open  # pyright: ignore[reportPrivateUsage]  # the connections httpx holds
    assert 1 <= len(pool._pool.connections) <= 8
