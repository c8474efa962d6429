"""Reads that ask the same at the same moment share one request, and no read misses an earlier write."""

import asyncio
import gc
import json
from collections.abc import AsyncIterator
from contextvars import ContextVar

import pytest

from tinymemory import (
    AgentMemory,
    CortexEngine,
    EngineError,
    FetchRequest,
    ItemKind,
    Learning,
    MemoryLayout,
    MemoryMeta,
    MetaFilter,
    Namespace,
    Reach,
)
from tinymemory.engines.cortex.sharing import Shared, now
from tinymemory.engines.cortex.surface import Surface
from tinymemory.errors import UnavailableError
from tinymemory.testing import CortexServer, raw

USER: ContextVar[str] = ContextVar("USER")


def learning(text: str, at: str) -> Learning:
    return Learning(text=text, meta=MemoryMeta.model_validate({"namespace": at}))


class Line:
    """A request that is answered when it is told to, and counts how often it left."""

    def __init__(self) -> None:
        self.sent = 0
        self.is_cancelled = False
        self.answered = asyncio.Event()
        self.error: Exception | None = None

    async def request(self) -> int:
        self.sent += 1
        number = self.sent
        try:
            await self.answered.wait()
        except asyncio.CancelledError:
            self.is_cancelled = True
            raise
        if self.error is not None:
            raise self.error
        return number


@pytest.fixture
async def line() -> Line:
    return Line()


@pytest.fixture
def shared() -> Shared[int]:
    return Shared()


async def left(line: Line, count: int = 1) -> None:
    """Return once so many requests left."""
    async with asyncio.timeout(5):
        while line.sent < count:
            await asyncio.sleep(0)


async def test_callers_of_one_moment_share_one_request(shared: Shared[int], line: Line) -> None:
    line.answered.set()

    answers = await asyncio.gather(*(shared.read("scope", line.request) for _ in range(4)))

    assert answers == [1, 1, 1, 1]


async def test_callers_who_ask_something_else_do_not_share(shared: Shared[int], line: Line) -> None:
    line.answered.set()

    answers = await asyncio.gather(shared.read("a", line.request), shared.read("b", line.request))

    assert sorted(answers) == [1, 2]


async def test_who_began_after_the_request_left_sends_another(shared: Shared[int], line: Line) -> None:
    first = asyncio.create_task(shared.read("scope", line.request))
    await left(line)

    second = asyncio.create_task(shared.read("scope", line.request))
    third = asyncio.create_task(shared.read("scope", line.request, began=now()))
    await left(line, 2)
    line.answered.set()

    assert await first == 1
    assert {await second, await third} == {2}


async def test_who_began_before_the_request_left_may_join_it_later(shared: Shared[int], line: Line) -> None:
    began = now()
    first = asyncio.create_task(shared.read("scope", line.request))
    await left(line)

    late = asyncio.create_task(shared.read("scope", line.request, began))
    await asyncio.sleep(0)
    line.answered.set()

    assert (await first, await late) == (1, 1)


async def test_nothing_outlives_its_request(shared: Shared[int], line: Line) -> None:
    began = now()
    line.answered.set()

    assert await shared.read("scope", line.request, began) == 1
    assert await shared.read("scope", line.request, began) == 2


async def test_an_error_reaches_everybody_who_shares_it(shared: Shared[int], line: Line) -> None:
    line.answered.set()
    line.error = UnavailableError("down")

    outcomes = await asyncio.gather(
        *(shared.read("scope", line.request) for _ in range(3)), return_exceptions=True
    )

    assert outcomes == [line.error] * 3


async def test_an_error_that_nobody_waits_for_any_more_is_none_in_the_log(
    shared: Shared[int], line: Line, caplog: pytest.LogCaptureFixture
) -> None:
    caller = asyncio.create_task(shared.read("scope", line.request))
    await left(line)
    line.error = UnavailableError("down")
    line.answered.set()
    await asyncio.sleep(0)  # the request has failed, and the caller is still to hear of it

    caller.cancel()
    await asyncio.wait([caller])
    gc.collect()

    assert caller.cancelled()
    assert not caplog.records


async def test_a_caller_that_is_cancelled_leaves_the_request_to_the_others(
    shared: Shared[int], line: Line
) -> None:
    first, second = (asyncio.create_task(shared.read("scope", line.request)) for _ in range(2))
    await left(line)

    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    line.answered.set()

    assert await second == 1


async def test_with_its_last_caller_a_request_is_cancelled_too(shared: Shared[int], line: Line) -> None:
    callers = [asyncio.create_task(shared.read("scope", line.request)) for _ in range(2)]
    await left(line)

    for caller in callers:
        caller.cancel()
    await asyncio.wait(callers)

    assert line.is_cancelled
    assert all(caller.cancelled() for caller in callers)


async def test_nobody_joins_a_request_that_is_being_cancelled(shared: Shared[int], line: Line) -> None:
    began = now()
    first = asyncio.create_task(shared.read("scope", line.request))
    await left(line)

    first.cancel()
    second = asyncio.create_task(shared.read("scope", line.request, began))
    await left(line, 2)
    line.answered.set()

    assert await second == 2
    assert first.cancelled()


async def test_callers_with_other_context_variables_do_not_share(shared: Shared[int], line: Line) -> None:
    async def as_user(name: str) -> int:
        USER.set(name)
        return await shared.read("scope", line.request)

    line.answered.set()
    answers = await asyncio.gather(as_user("zoe"), as_user("yan"))

    assert sorted(answers) == [1, 2]


async def test_each_event_loop_has_requests_of_its_own(shared: Shared[int], line: Line) -> None:
    first = asyncio.create_task(shared.read("scope", line.request))
    await left(line)

    async def elsewhere() -> int:
        other = Line()
        other.answered.set()
        return await shared.read("scope", other.request)

    assert await asyncio.to_thread(lambda: asyncio.run(elsewhere())) == 1
    line.answered.set()
    assert await first == 1


async def test_a_turns_sections_read_each_scope_once(
    engine: CortexEngine, server: CortexServer, surface: Surface
) -> None:
    memory = AgentMemory(engine, MemoryLayout(Namespace.parse("team:kitchen")), "writer")
    await memory.post_turn("t", 0, "The oven runs hot.")
    server.seen.clear()
    server.knobs.recall_delay = 0.2  # so that the team's section finds the agent's read under way

    await memory.pre_turn("t", 1, "How hot does the oven run?")

    bodies = [str(body) for body in server.seen.recalls]
    assert len(bodies) == len(set(bodies))
    assert server.seen.count(f"GET /{surface.scopes}") == 2  # under the team's node and the agent's


async def test_a_subtrees_own_node_is_read_while_the_scopes_below_are_still_listed(
    engine: CortexEngine, server: CortexServer, surface: Surface
) -> None:
    await engine.store(learning("tide", "team:t"))
    await engine.store(learning("tides", "team:t/agent:a"))
    server.seen.clear()
    listed = {"items": [{"path": "app:tinymemory/team:t/agent:a/app:learnings"}]}
    is_read = asyncio.Event()

    async def once_the_node_is_read() -> AsyncIterator[bytes]:
        await is_read.wait()
        yield json.dumps({"success": True, "data": listed, **listed}).encode()

    held = raw.RawAnswer(200, {"Content-Type": "application/json"}, once_the_node_is_read)
    server.knobs.raw_answers = {f"GET /{surface.scopes}": [held]}
    wanted = MetaFilter(reach=Reach.subtree("team:t"), kinds=(ItemKind.LEARNING,))

    fetching = asyncio.create_task(engine.fetch(FetchRequest(query="tide", filter=wanted)))
    async with asyncio.timeout(5):
        while not server.seen.recalls:
            await asyncio.sleep(0.005)
    is_read.set()

    assert {hit.text for hit in (await fetching).hits} == {"tide", "tides"}
    assert [body["scope"] for body in server.seen.recalls] == [
        "app:tinymemory/team:t/app:learnings",
        "app:tinymemory/team:t/agent:a/app:learnings",
    ]


@pytest.mark.parametrize("answer", ["not_json", "close"])
async def test_a_listing_that_fails_ends_the_fetch_and_leaves_no_read_behind(
    engine: CortexEngine, server: CortexServer, surface: Surface, answer: str
) -> None:
    server.knobs.raw_answers = {f"GET /{surface.scopes}": [answer] * 3}
    server.knobs.recall_delay = 30

    with pytest.raises((EngineError, UnavailableError)):
        await engine.fetch(FetchRequest(query="tide"))

    assert not any("Shared" in repr(task.get_coro()) for task in asyncio.all_tasks())
