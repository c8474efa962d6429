"""Raw answers reach the client byte for byte, framed or broken as asked."""

import asyncio
import json
from collections.abc import AsyncIterator

import httpx
import pytest

from tinymemory.testing import CortexServer, RawAnswer, raw

CAP = 64 * 1024 * 1024
EVENTS = "/v1/events"


@pytest.fixture
async def http(direct: CortexServer) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": "Bearer key"}
    async with httpx.AsyncClient(base_url=direct.url, headers=headers) as http:
        yield http


async def test_a_raw_answer_is_one_requests_and_then_the_route_is_back(
    direct: CortexServer, http: httpx.AsyncClient
) -> None:
    answer = RawAnswer(418, {"X-Tea": "green", "Set-Cookie": "a=b"}, b"short and stout")
    direct.knobs.raw_answers["GET /v1/events"] = [answer, "html_502"]

    got = [await http.get(EVENTS, params={"scope": "app:x"}) for _ in range(3)]
    other = await http.get("/v1/admin/health")

    assert [one.status_code for one in got] == [418, 502, 200]
    assert got[0].content == b"short and stout"
    assert (got[0].headers["X-Tea"], got[0].headers["Set-Cookie"]) == ("green", "a=b")
    assert other.status_code == 200


async def test_the_longest_prefix_answers(direct: CortexServer, http: httpx.AsyncClient) -> None:
    direct.knobs.raw_answers["GET /"] = [RawAnswer(501)]
    direct.knobs.raw_answers["GET /v1/ev"] = [RawAnswer(502)]

    statuses = [(await http.get(EVENTS)).status_code for _ in range(2)]

    assert statuses == [502, 501]


async def test_a_body_may_be_a_stream(direct: CortexServer, http: httpx.AsyncClient) -> None:
    async def stream() -> AsyncIterator[bytes]:
        yield b'{"items"'
        yield b""
        yield b": []}"

    direct.knobs.raw_answers["GET /"] = [RawAnswer(200, {}, stream()), RawAnswer(200, {}, stream)]

    assert (await http.get(EVENTS)).json() == {"items": []}
    assert (await http.get(EVENTS)).json() == {"items": []}


@pytest.mark.parametrize("name", ["close", "close_before", "close_midway"])
async def test_the_connection_can_be_dropped_before_and_midway(
    direct: CortexServer, http: httpx.AsyncClient, name: str
) -> None:
    direct.knobs.raw_answers["GET /"] = [name]

    with pytest.raises(httpx.RemoteProtocolError):
        await http.get(EVENTS)


@pytest.mark.parametrize("name", ["truncated_json", "not_json"])
async def test_bodies_that_are_no_json_arrive_whole(
    direct: CortexServer, http: httpx.AsyncClient, name: str
) -> None:
    direct.knobs.raw_answers["GET /"] = [name]

    answer = await http.get(EVENTS)

    assert answer.status_code == 200
    with pytest.raises(json.JSONDecodeError):
        answer.json()


@pytest.mark.parametrize("name", ["wrong_types", "no_event_id", "no_envelope", "no_data", "success_false"])
async def test_bodies_of_the_wrong_shape_are_json(
    direct: CortexServer, http: httpx.AsyncClient, name: str
) -> None:
    direct.knobs.raw_answers["GET /"] = [name]

    assert isinstance((await http.get(EVENTS)).json(), dict)


@pytest.mark.parametrize("name", ["too_large", "gzip_bomb", "declared_too_large"])
async def test_a_body_can_be_one_byte_over_the_cap(
    direct: CortexServer, http: httpx.AsyncClient, name: str
) -> None:
    direct.knobs.raw_answers["GET /"] = [name]

    size, wire = 0, 0
    async with http.stream("GET", EVENTS) as answer:
        declared = answer.headers.get("Content-Length")
        async for chunk in answer.aiter_bytes():
            size += len(chunk)
        wire = answer.num_bytes_downloaded

    assert size == CAP + 1
    assert declared == (str(CAP + 1) if name == "declared_too_large" else None)
    if name == "gzip_bomb":
        assert wire < 1_000_000


@pytest.mark.parametrize("answer", ["endless", raw.dripping(0.001)])
async def test_a_body_that_never_ends_ends_with_its_reader(
    direct: CortexServer, http: httpx.AsyncClient, answer: RawAnswer | str
) -> None:
    direct.knobs.raw_answers["GET /"] = [answer]

    async with http.stream("GET", EVENTS) as response:
        chunks = response.aiter_raw()
        first = [await anext(chunks), await anext(chunks)]

    assert all(first)
    assert (await http.get("/v1/admin/health")).status_code == 200


async def test_a_redirect_names_its_target(direct: CortexServer, http: httpx.AsyncClient) -> None:
    direct.knobs.raw_answers["GET /"] = [raw.redirect("http://elsewhere.test/steal")]

    answer = await http.get(EVENTS)

    assert (answer.status_code, answer.headers["Location"]) == (307, "http://elsewhere.test/steal")


async def test_a_header_may_frame_the_body_wrongly(direct: CortexServer, http: httpx.AsyncClient) -> None:
    direct.knobs.raw_answers["GET /"] = [RawAnswer(200, {"Content-Length": "100"}, b"too little")]

    with pytest.raises(httpx.RemoteProtocolError):
        await http.get(EVENTS)


async def test_an_unread_endless_body_does_not_keep_the_server_from_closing(direct: CortexServer) -> None:
    direct.knobs.raw_answers["GET /"] = ["endless"]
    host, port = direct.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer key\r\n\r\n")
    await reader.readexactly(1000)

    await asyncio.wait_for(direct.aclose(), 5)

    writer.transport.abort()
