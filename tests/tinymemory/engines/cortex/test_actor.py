"""§9 items 15 to 21: whom a CortexDB server takes the credential for."""

import asyncio
from collections.abc import Callable
from datetime import date

import httpx
import pytest

from tinymemory import (
    FetchRequest,
    ItemKind,
    ListRequest,
    MetaFilter,
    Reach,
    TimeHint,
    TinyMemoryError,
    UnauthorizedError,
)
from tinymemory.engines.cortex import CortexEngine
from tinymemory.testing import CortexServer, RawAnswer, raw

Connect = Callable[..., CortexEngine]
direct_only = pytest.mark.parametrize("wire", ["direct"])
LIST = ListRequest(filter=MetaFilter(reach=Reach(), kinds=(ItemKind.LEARNING,)))


def actors(server: CortexServer) -> list[str | None]:
    return [sent.get("x-cortex-actor") for sent in server.seen.headers]


@direct_only
async def test_the_caller_is_asked_once_and_sent_on_every_later_request(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 15
    for _ in range(3):
        await engine.list(LIST)

    assert len(server.seen.whoami) == 1
    assert "x-cortex-actor" not in server.seen.whoami[0]
    assert actors(server) == ["user:local"] * 3


@direct_only
@pytest.mark.parametrize("status", [None, 500])
async def test_concurrent_first_requests_ask_once_between_them(
    engine: CortexEngine, server: CortexServer, status: int | None
) -> None:
    # §9 item 16
    server.knobs.whoami_status = status

    await asyncio.gather(*(engine.list(LIST) for _ in range(8)))

    assert len(server.seen.whoami) == 1
    assert actors(server) == [None if status else "user:local"] * 8


@direct_only
@pytest.mark.parametrize("status", [404, 405])
async def test_a_server_without_whoami_is_asked_once_and_gets_no_actor_header(
    engine: CortexEngine, server: CortexServer, status: int
) -> None:
    # §9 item 17
    server.knobs.whoami_status = status

    for _ in range(3):
        await engine.list(LIST)

    assert len(server.seen.whoami) == 1
    assert actors(server) == [None] * 3


@direct_only
@pytest.mark.parametrize("status", [500, 503, 400, 403, 302])
async def test_a_failing_whoami_is_not_remembered_and_does_not_fail_the_call(
    engine: CortexEngine, server: CortexServer, status: int
) -> None:
    # §9 item 18
    server.knobs.whoami_status = status
    await engine.list(LIST)
    server.knobs.whoami_status = None
    await engine.list(LIST)

    assert len(server.seen.whoami) == 2
    assert actors(server) == [None, "user:local"]


@direct_only
async def test_a_whoami_that_never_comes_is_not_remembered_either(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 18
    server.knobs.raw_answers = {"GET /v1/auth/whoami": [RawAnswer(close="before")]}

    await engine.list(LIST)
    await engine.list(LIST)

    assert actors(server) == [None, "user:local"]


@direct_only
@pytest.mark.parametrize(
    "caller", ["", "  ", "user\nlocal", "usér\u20ac", 7, None, ["user:local"], {"id": "user"}]
)
async def test_a_blank_or_unusable_caller_means_no_actor_header(
    engine: CortexEngine, server: CortexServer, caller: object
) -> None:
    # §9 item 19
    server.knobs.raw_answers = {"GET /v1/auth/whoami": [raw.json_answer({"caller": caller})]}

    await engine.list(LIST)
    await engine.list(LIST)

    assert len(server.seen.whoami) == 1
    assert actors(server) == [None, None]


@direct_only
@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"null", b'"user:local"'])
async def test_an_unreadable_whoami_means_no_actor_header(
    engine: CortexEngine, server: CortexServer, body: bytes
) -> None:
    # §9 item 19
    server.knobs.raw_answers = {"GET /v1/auth/whoami": [RawAnswer(200, {}, body)]}

    await engine.list(LIST)
    await engine.list(LIST)

    assert len(server.seen.whoami) == 1
    assert actors(server) == [None, None]


@direct_only
async def test_a_caller_is_trimmed(engine: CortexEngine, server: CortexServer) -> None:
    # §9 item 19
    server.knobs.raw_answers = {"GET /v1/auth/whoami": [raw.json_answer({"caller": " user:ann "})]}

    await engine.list(LIST)

    assert actors(server) == ["user:ann"]


@direct_only
@pytest.mark.parametrize("status", [401, 403])
async def test_a_refusal_makes_the_next_request_ask_again(
    engine: CortexEngine, server: CortexServer, status: int
) -> None:
    # §9 item 20
    await engine.list(LIST)
    server.knobs.fail_all = (status, "ACTOR_MISMATCH")
    with pytest.raises(UnauthorizedError):
        await engine.list(LIST)
    server.knobs.fail_all = None
    server.knobs.whoami_caller = "user:other"
    await engine.list(LIST)

    assert len(server.seen.whoami) == 2
    assert actors(server) == ["user:local", "user:local", "user:other"]


@direct_only
async def test_what_an_engine_learnt_is_shared_by_those_made_from_it(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 15
    await engine.list(LIST)
    await engine.with_default_headers({"x-sdk-name": "host"}).list(LIST)

    assert len(server.seen.whoami) == 1


@direct_only
@pytest.mark.parametrize("status", [500, 404])
def test_an_engine_outlives_the_loop_in_which_it_asked(connect: Connect, status: int) -> None:
    # §9 item 16: as a host does that calls `asyncio.run` for each turn
    async def answer(request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(0.001)
        is_read = request.url.path == "/v1/events"
        return httpx.Response(200 if is_read else status, json={"items": []})

    engine = connect("https://h", http=httpx.MockTransport(answer))

    async def turn() -> None:
        hint = TimeHint(date(2026, 1, 2), date(2026, 1, 2))
        fetches = (engine.fetch(FetchRequest(query=f"tide {n}", refers_to=hint)) for n in range(4))
        results = await asyncio.gather(*fetches, return_exceptions=True)
        assert all(isinstance(result, TinyMemoryError) for result in results)
        await asyncio.gather(*(engine.list(LIST) for _ in range(4)))

    for _ in range(3):
        asyncio.run(turn())


@pytest.mark.parametrize("wire", ["hosted"])
async def test_the_hosted_wire_never_asks_and_never_sends_the_header(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 21
    await engine.list(LIST)
    await engine.health()

    assert server.seen.whoami == []
    assert server.seen.count("GET /v1") == 0
    assert actors(server) == [None, None]
