"""§9 items 22 to 31: how often a call is tried, and the pause a rate limit asks for."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from tinymemory import (
    ConsolidateRequest,
    FetchRequest,
    ItemKind,
    Learning,
    ListRequest,
    MetaFilter,
    Reach,
    RecallRequest,
    TinyMemoryError,
    UnauthorizedError,
    UnavailableError,
)
from tinymemory.engine import WaitFor
from tinymemory.engines.cortex import CortexEngine, Timing
from tinymemory.engines.cortex.call import Call
from tinymemory.engines.cortex.surface import Surface
from tinymemory.items import Conversation, Turn
from tinymemory.testing import CortexServer, RawAnswer

Connect = Callable[..., CortexEngine]
direct_only = pytest.mark.parametrize("wire", ["direct"])
ROOT_LEARNINGS = MetaFilter(reach=Reach(), kinds=(ItemKind.LEARNING,))
LIST = ListRequest(filter=ROOT_LEARNINGS)


class Time:
    """A clock that only sleeping moves, and a record of every sleep."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)

    def timing(self) -> Timing:
        return Timing(clock=lambda: self.now, sleep=self.sleep)


@pytest.fixture
def time() -> Time:
    """Stands still."""
    return Time()


async def test_a_listing_that_is_limited_twice_succeeds_on_the_third_attempt(
    server: CortexServer, connect: Connect, surface: Surface, time: Time
) -> None:
    # §9 item 22
    server.knobs.rate_limit_events = 2

    async with connect(server.url, timing=time.timing()) as engine:
        page = await engine.list(LIST)

    assert page.items == []
    assert server.seen.count(f"GET /{surface.events}") == 3
    assert time.slept == [0.25, 0.5]


async def test_a_read_that_stays_unavailable_is_given_up_after_three_attempts(
    server: CortexServer, connect: Connect, surface: Surface
) -> None:
    # §9 item 23
    server.knobs.fail_all = (503, "DOWN")

    async with connect(server.url) as engine:
        with pytest.raises(UnavailableError, match="503"):
            await engine.list(LIST)

    assert server.seen.count(f"GET /{surface.events}") == 3


async def test_a_scope_authorization_change_is_waited_out_for_six_attempts(
    server: CortexServer, connect: Connect, surface: Surface, time: Time
) -> None:
    # §9 item 24
    async with connect(server.url, timing=time.timing()) as engine:
        server.knobs.state_change_events = 5
        await engine.list(LIST)
        server.knobs.state_change_events = 6
        with pytest.raises(UnavailableError) as caught:
            await engine.list(LIST)

    assert caught.value.code == "AUTHORIZATION_STATE_CHANGED"
    assert server.seen.count(f"GET /{surface.events}") == 12
    assert time.slept == [0.25, 0.5, 1.0, 2.0, 4.0] * 2


async def test_a_code_that_only_begins_like_it_gets_three_attempts(
    server: CortexServer, connect: Connect, surface: Surface
) -> None:
    # §9 item 25
    server.knobs.fail_all = (503, "AUTHORIZATION_STATE_CHANGED_AGAIN")

    async with connect(server.url) as engine:
        with pytest.raises(UnavailableError):
            await engine.list(LIST)

    assert server.seen.count(f"GET /{surface.events}") == 3


async def test_the_limit_is_read_from_each_failure_in_turn(
    server: CortexServer, connect: Connect, surface: Surface
) -> None:
    # §9 item 24
    changed = b'{"error_code":"AUTHORIZATION_STATE_CHANGED","errorCode":"AUTHORIZATION_STATE_CHANGED"}'
    plain, change = RawAnswer(503, {}, b"{}"), RawAnswer(503, {}, changed)
    server.knobs.raw_answers = {f"GET /{surface.events}": [plain, change, change, plain]}

    async with connect(server.url) as engine:
        with pytest.raises(UnavailableError):
            await engine.list(LIST)

    assert server.seen.count(f"GET /{surface.events}") == 4


@pytest.mark.parametrize("status", [400, 401, 403, 409, 422, 501])
async def test_a_settled_refusal_is_not_retried(
    server: CortexServer, connect: Connect, surface: Surface, status: int
) -> None:
    # §9 item 26
    server.knobs.fail_all = (status, "NO")

    async with connect(server.url) as engine:
        with pytest.raises(TinyMemoryError):
            await engine.list(LIST)

    assert server.seen.count(f"GET /{surface.events}") == 1


@direct_only
async def test_a_direct_append_an_answer_a_build_and_a_health_probe_are_sent_once(
    server: CortexServer, connect: Connect
) -> None:
    # §9 item 27
    turn = Conversation(turns=(Turn(role="user", text="one"),))  # pyright: ignore[reportArgumentType]  # its text is read
    async with connect(server.url) as engine:
        await engine.store(Learning(text="tides"))
        server.seen.clear()
        down = RawAnswer(503, {}, b"{}")
        server.knobs.raw_answers = {
            prefix: [down] * 9
            for prefix in (
                "POST /v1/experience",
                "POST /v1/answer",
                "POST /v1/beliefs",
                "GET /v1/admin/health",
            )
        }
        with pytest.raises(UnavailableError):
            await engine.store_with(turn, WaitFor.ACCEPTED)
        with pytest.raises(UnavailableError):
            await engine.store_many([Learning(text="three"), Learning(text="four")])
        with pytest.raises(UnavailableError):
            await engine.recall(RecallRequest(question="tides"))
        with pytest.raises(UnavailableError):
            await engine.consolidate(ConsolidateRequest(reach=Reach()))
        assert (await engine.health()).state == "degraded"

    counts = [
        server.seen.count(prefix)
        for prefix in (
            "POST /v1/experience",
            "POST /v1/experience/bulk",
            "POST /v1/answer",
            "POST /v1/beliefs/build",
            "GET /v1/admin/health",
        )
    ]
    assert counts == [2, 1, 1, 1, 1]


async def test_after_a_rate_limit_no_request_of_the_engine_leaves_before_the_pause_is_over(
    server: CortexServer, connect: Connect, surface: Surface, time: Time
) -> None:
    # §9 item 28
    async with connect(server.url, timing=time.timing()) as engine:
        await engine.health()
        server.knobs.rate_limit_headers = {"Retry-After": 4}
        server.knobs.rate_limit_writes = 1
        with pytest.raises(UnavailableError):
            await engine._transport.call(  # pyright: ignore[reportPrivateUsage]  # one attempt, so that nothing else sleeps
                replace(_append(surface), claim="c" if surface.is_hosted else None)
            )
        assert time.slept == []

        await asyncio.gather(engine.health(), engine.with_default_headers({"x-a": "b"}).health())

    # The first to sleep moves the clock for both.
    assert time.now >= 1004.0
    assert set(time.slept) == {4.0}


async def test_a_paused_read_waits_for_the_pause_and_not_for_its_own_backoff_alone(
    server: CortexServer, connect: Connect, surface: Surface, time: Time
) -> None:
    # §9 item 28
    server.knobs.rate_limit_headers = {"Retry-After": 3}
    server.knobs.rate_limit_events = 1

    async with connect(server.url, timing=time.timing()) as engine:
        await engine.list(LIST)

    assert time.slept == [0.25, 2.75]
    assert server.seen.count(f"GET /{surface.events}") == 2


@direct_only
async def test_the_actor_lookup_keeps_the_pause_and_causes_one(
    server: CortexServer, connect: Connect, time: Time
) -> None:
    # §9 item 28
    server.knobs.raw_answers = {"GET /v1/auth/whoami": [RawAnswer(429, {"Retry-After": "2"}, b"{}")]}

    async with connect(server.url, timing=time.timing()) as engine:
        await engine.health()

    assert time.slept == [2.0]


@pytest.mark.parametrize(
    ("headers", "pause"),
    [
        ({"Retry-After": " 5 "}, 5.0),
        ({"RateLimit-Reset": "6"}, 6.0),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT", "RateLimit-Reset": "7"}, 7.0),
        ({"Retry-After": "1.5", "RateLimit-Reset": "7"}, 7.0),
        ({"Retry-After": "-3"}, None),
        ({"Retry-After": "3", "RateLimit-Reset": "7"}, 3.0),
        ({"Retry-After": "٣"}, None),
        ({"X-RateLimit-Reset": "7"}, None),
        ({}, None),
    ],
)
async def test_the_reset_header_is_read_when_retry_after_is_absent_or_no_number(
    server: CortexServer,
    connect: Connect,
    surface: Surface,
    time: Time,
    headers: dict[str, str],
    pause: float | None,
) -> None:
    # §9 item 29
    answer = RawAnswer(429, headers, b"{}")
    server.knobs.raw_answers = {f"GET /{surface.health}": [answer]}

    async with connect(server.url, timing=time.timing()) as engine:
        await engine.health()
        await engine.health()

    assert time.slept == ([] if pause is None else [pause])


async def test_a_pause_is_capped_a_later_lift_wins_and_zero_sets_none(
    server: CortexServer, connect: Connect, surface: Surface, time: Time
) -> None:
    # §9 item 30
    def limited(seconds: int) -> RawAnswer:
        return RawAnswer(429, {"Retry-After": str(seconds), "RateLimit-Reset": "9"}, b"{}")

    async with connect(server.url, timing=time.timing()) as engine:
        pause = engine._transport.pause  # pyright: ignore[reportPrivateUsage]  # what two answers at once would do
        for seconds, slept in (([3600], [10.0]), ([0], []), ([2, 5, 3], [5.0])):
            time.slept.clear()
            for number in seconds[:-1]:
                pause.ask(number)
            server.knobs.raw_answers = {f"GET /{surface.health}": [limited(seconds[-1])]}
            if len(seconds) == 1:
                await engine.health()
            else:
                pause.ask(seconds[-1])
                server.knobs.raw_answers = {}
            await engine.health()
            assert time.slept == slept


async def test_a_sleeper_looks_again_when_it_wakes(
    connect: Connect, server: CortexServer, time: Time
) -> None:
    # §9 item 30
    async with connect(server.url, timing=time.timing()) as engine:
        pause = engine._transport.pause  # pyright: ignore[reportPrivateUsage]  # moved while somebody sleeps
        pause.ask(2)
        sleeper = asyncio.create_task(engine.health())
        await asyncio.sleep(0)
        pause.ask(3)
        await sleeper

    assert sum(time.slept) >= 3.0


@pytest.mark.parametrize("status", [429, 503])
async def test_the_unavailable_error_carries_the_seconds_as_sent(
    server: CortexServer, connect: Connect, surface: Surface, time: Time, status: int
) -> None:
    # §9 item 31
    route = f"POST /{surface.recall}"
    async with connect(server.url, timing=time.timing()) as engine:
        server.knobs.raw_answers = {route: [RawAnswer(status, {"Retry-After": "3600"}, b"{}")] * 3}
        with pytest.raises(UnavailableError) as asked:
            await engine.fetch(FetchRequest(query="tides", filter=ROOT_LEARNINGS))
        server.knobs.raw_answers = {route: [RawAnswer(502, {"Retry-After": "3600"}, b"{}")] * 3}
        with pytest.raises(UnavailableError) as silent:
            await engine.fetch(FetchRequest(query="tides", filter=ROOT_LEARNINGS))

    assert asked.value.retry_after == 3600.0
    assert silent.value.retry_after is None
    # Only a rate limit holds back what comes after it.
    assert (10.0 in time.slept) == (status == 429)


async def test_a_rejected_key_is_not_tried_again(server: CortexServer, connect: Connect) -> None:
    # §9 item 26
    server.knobs.accept_token = "other"

    async with connect(server.url) as engine:
        with pytest.raises(UnauthorizedError):
            await engine.list(LIST)

    assert len(server.seen.requests) == 1


def _append(surface: Surface) -> Call:
    return Call(
        method="POST",
        route=surface.append,
        body={
            "scope": "app:tinymemory/app:learnings",
            "modality": "observation",
            "content": {"kind": "message", "role": "user", "text": "tides"},
            "context": {"labels": []},
        },
    )
