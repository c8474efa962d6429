"""§9 items 151 to 153 and 155: the promises as a whole, malformed answers, and ten thousand turns."""

import asyncio
import gc
import json
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import date
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tinymemory import (
    AgentMemory,
    BeliefsRequest,
    ConsolidateRequest,
    Conversation,
    ExploreRequest,
    Facet,
    FetchRequest,
    ForgetTarget,
    GetRequest,
    Learning,
    ListRequest,
    MemoryLayout,
    MemoryMeta,
    MetaFilter,
    Reach,
    RecallRequest,
    TimeHint,
    TinyMemoryError,
    Turn,
)
from tinymemory.background import BackgroundRunner
from tinymemory.conformance import run
from tinymemory.engine import WaitFor
from tinymemory.engines.cortex import CortexEngine, Timing
from tinymemory.engines.cortex.surface import Surface
from tinymemory.items import Role
from tinymemory.testing import CortexServer, RawAnswer

Connect = Callable[..., CortexEngine]
direct_only = pytest.mark.parametrize("wire", ["direct"])
DAY = date(2026, 1, 2)
HASTY = Timing(backoff=0.0, poll_gap=0.001, poll_gap_cap=0.001, visibility_budget=0.0, settle_budget=0.01)


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


CALLS: list[Callable[[CortexEngine], Awaitable[object]]] = [
    lambda engine: engine.list(ListRequest()),
    lambda engine: engine.get(GetRequest(ids=("a" * 40,))),
    lambda engine: engine.fetch(FetchRequest(query="tide", beliefs=3)),
    lambda engine: engine.fetch(FetchRequest(query="tide", refers_to=TimeHint(DAY, DAY, "America/New_York"))),
    lambda engine: engine.recall(RecallRequest(question="tide", filter=MetaFilter(reach=Reach()))),
    lambda engine: engine.store(Learning(text="tide")),
    lambda engine: engine.store_many([Learning(text="tide"), Learning(text="moon")]),
    lambda engine: engine.store_with(Conversation(turns=(Turn(role=Role.USER, text="x"),)), WaitFor.ACCEPTED),
    lambda engine: engine.forget(ForgetTarget.ids(["a" * 40])),
    lambda engine: engine.forget(ForgetTarget.filter(MetaFilter(agent_id="a"))),
    lambda engine: engine.explore(ExploreRequest(facet=Facet.THREAD)),
    lambda engine: engine.consolidate(ConsolidateRequest(reach=Reach())),
    lambda engine: engine.beliefs(BeliefsRequest()),
    lambda engine: engine.beliefs(BeliefsRequest(query="tide")),
    lambda engine: engine.health(),
]

NAMES = [
    "success",
    "data",
    "items",
    "scopes",
    "event_id",
    "results",
    "layers",
    "events",
    "beliefs",
    "pack_id",
    "answer",
    "diagnostics",
    "warnings",
    "provenance",
    "trail",
    "context_contributors",
    "knapsack_evictions",
    "id",
    "scope",
    "path",
    "content",
    "text",
    "context",
    "labels",
    "has_more",
    "next_cursor",
    "built",
    "job_id",
    "capabilities",
    "caller",
    "claim",
    "subject",
    "predicate",
    "object",
    "name",
    "value",
    "stance",
    "confidence",
    "valid_from",
    "error",
    "errorCode",
    "error_code",
    "answer_model",
    "_partial",
    "replayed_from_idempotency",
]
leaves: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(
        [
            "app:tinymemory/app:learnings",
            '{"v":2,"id":"x","kind":"learning","text":"a","meta":{}}',
            'tm:e:00:{"v":3,"id":"x","kind":"document","text":"","meta":{},"chunk":{"index":0,"count":9}}',
            "0001-01-01T00:00:00+23:00",
            "evt_1",
            10**400,
        ]
    )
)
values: st.SearchStrategy[Any] = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=6),
    max_leaves=30,
)
event_shapes: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {
        "id": leaves,
        "content": st.fixed_dictionaries({"text": leaves}),
        "context": st.fixed_dictionaries({"labels": values}),
    }
)
answers: st.SearchStrategy[Any] = values | st.fixed_dictionaries(
    {
        "items": st.lists(event_shapes | values, max_size=4),
        "layers": st.fixed_dictionaries({"events": st.lists(event_shapes, max_size=4), "beliefs": values}),
        "pack_id": leaves,
        "answer": leaves,
        "event_id": leaves,
        "results": values,
    }
)


@pytest.mark.parametrize("wire", ["direct", "hosted"])
@given(data=st.data())
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_no_malformed_answer_on_any_route_raises_anything_but_a_library_error(
    wire: str, connect: Connect, data: st.DataObject
) -> None:
    # §9 item 153
    def answer(request: httpx.Request) -> httpx.Response:
        value: Any = data.draw(answers)
        if wire == "hosted" and data.draw(st.booleans()):
            value = {"success": True, "data": value}
        status = data.draw(st.sampled_from([200, 200, 200, 202, 204, 400, 404, 409, 422, 500]))
        body = (
            json.dumps(value).encode() if data.draw(st.integers(0, 9)) else data.draw(st.binary(max_size=40))
        )
        return httpx.Response(status, content=body)

    async def one_call() -> None:
        async with connect("https://h", timing=HASTY, http=httpx.MockTransport(answer)) as engine:
            with suppress(TinyMemoryError):
                await data.draw(st.sampled_from(CALLS))(engine)

    asyncio.run(one_call())


@pytest.mark.parametrize(
    "kind",
    [
        "truncated_json",
        "not_json",
        "wrong_types",
        "no_event_id",
        "no_envelope",
        "no_data",
        "success_false",
        "html_502",
        "close",
        "close_midway",
    ],
)
async def test_every_ready_made_answer_on_every_route_is_survived(
    server: CortexServer, connect: Connect, surface: Surface, kind: str
) -> None:
    # §9 item 153
    prefix = "/v1" if not surface.is_hosted else "/memory"
    async with connect(server.url, timing=HASTY) as engine:
        for call in CALLS:
            server.knobs.raw_answers = {f"{method} {prefix}": [kind] * 99 for method in ("GET", "POST")}
            with suppress(TinyMemoryError):
                await call(engine)


@pytest.mark.parametrize(
    "body", [b'{"items": [{"id": "\\ud800", "content": {"text": "\\udfff"}}]}', b"\xef\xbb\xbf{}"]
)
async def test_half_a_character_in_an_answer_is_replaced(
    server: CortexServer, connect: Connect, surface: Surface, body: bytes
) -> None:
    # §9 item 153
    answer = RawAnswer(body=b'{"success": true, "data": ' + body.removeprefix(b"\xef\xbb\xbf") + b"}")
    server.knobs.raw_answers = {
        f"GET /{surface.events}": [answer if surface.is_hosted else RawAnswer(body=body)] * 9
    }

    async with connect(server.url) as engine:
        assert (await engine.list(ListRequest(filter=MetaFilter(reach=Reach())))).items == []


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
