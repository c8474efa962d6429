"""§9 items 32 to 36: bodies that are too large, too slow or cut off, and hosts that do not answer."""

import asyncio
import gzip
import json
import ssl
import zlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinymemory import (
    EngineError,
    InvalidRequestError,
    ItemKind,
    ListRequest,
    MetaFilter,
    Reach,
    TinyMemoryError,
    UnavailableError,
    UnreachableError,
)
from tinymemory.engines.cortex import CortexEngine, Timing
from tinymemory.engines.cortex import body as bodies
from tinymemory.engines.cortex.surface import Surface
from tinymemory.testing import CortexServer, RawAnswer, raw

Connect = Callable[..., CortexEngine]
LIST = ListRequest(filter=MetaFilter(reach=Reach(), kinds=(ItemKind.LEARNING,)))
IMPATIENT = Timing(backoff=0.001, poll_gap=0.001, request_timeout=0.4, connect_timeout=0.4)


def answering(server: CortexServer, surface: Surface, *answers: RawAnswer | str) -> None:
    server.knobs.raw_answers = {f"GET /{surface.events}": list(answers)}


@pytest.mark.parametrize("kind", ["too_large", "declared_too_large", "endless", "gzip_bomb"])
async def test_an_answer_over_the_cap_is_refused_while_it_streams(
    engine: CortexEngine, server: CortexServer, surface: Surface, kind: str
) -> None:
    # §9 item 32
    answering(server, surface, kind)

    with pytest.raises(EngineError, match="over 64 MiB"):
        await engine.list(LIST)

    assert server.seen.count(f"GET /{surface.events}") == 1


async def test_an_answer_that_declares_itself_too_large_is_refused_before_it_is_read(
    engine: CortexEngine, server: CortexServer, surface: Surface
) -> None:
    # §9 item 32
    for declared in (bodies.BODY_CAP + 1, 10**19):
        never = replace(raw.dripping(gap=60), headers={"Content-Length": str(declared)})
        answering(server, surface, never)
        async with asyncio.timeout(5):
            with pytest.raises(EngineError, match="over 64 MiB"):
                await engine.list(LIST)


async def test_one_byte_decides_and_encodings_named_twice_are_not_multiplied(
    engine: CortexEngine, server: CortexServer, surface: Surface, monkeypatch: pytest.MonkeyPatch
) -> None:
    # §9 item 32
    page = raw.json_answer({"success": True, "data": {"items": []}, "items": []}).body
    assert isinstance(page, bytes)
    page += b" " * 1000
    packed = gzip.compress(page)
    monkeypatch.setattr(bodies, "BODY_CAP", len(page))
    for encoding, body in (("", page), ("gzip", packed), ("deflate", zlib.compress(page))):
        answering(server, surface, RawAnswer(200, {"Content-Encoding": encoding} if encoding else {}, body))
        assert (await engine.list(LIST)).items == []

    monkeypatch.setattr(bodies, "BODY_CAP", len(page) - 1)
    for encoding, body in (("", page), ("gzip", packed)):
        answering(server, surface, RawAnswer(200, {"Content-Encoding": encoding} if encoding else {}, body))
        with pytest.raises(EngineError, match="over"):
            await engine.list(LIST)

    answering(server, surface, RawAnswer(200, {"Content-Encoding": "gzip, gzip"}, gzip.compress(packed)))
    with pytest.raises(EngineError, match="not asked for"):
        await engine.list(LIST)


async def test_gzip_in_several_members_is_one_body(
    engine: CortexEngine, server: CortexServer, surface: Surface
) -> None:
    page = b'{"success": true, "data": {"items": []}, "items": []}'
    packed = gzip.compress(page[:7]) + gzip.compress(page[7:])
    answering(server, surface, RawAnswer(200, {"Content-Encoding": "gzip"}, packed))

    assert (await engine.list(LIST)).items == []


@pytest.mark.parametrize("body", [b"not gzip at all", gzip.compress(b"{}", mtime=0)[:-9]])
async def test_a_body_that_is_not_the_gzip_it_claims_is_an_error(
    engine: CortexEngine, server: CortexServer, surface: Surface, body: bytes
) -> None:
    # §9 item 35
    answering(server, surface, *[RawAnswer(200, {"Content-Encoding": "gzip"}, body)] * 3)

    with pytest.raises((EngineError, UnavailableError)):
        await engine.list(LIST)


async def test_an_endless_error_body_is_cut_and_the_status_still_decides(
    engine: CortexEngine, server: CortexServer, surface: Surface
) -> None:
    # §9 item 33
    answering(server, surface, replace(raw.endless, status=404), replace(raw.endless, status=422))

    for status in (404, 422):
        with pytest.raises(TinyMemoryError, match=str(status)) as caught:
            await engine.list(LIST)
        assert len(str(caught.value)) < 500


async def test_of_an_error_body_64_kib_are_read_and_no_more(
    engine: CortexEngine, server: CortexServer, surface: Surface
) -> None:
    # §9 item 33
    body = b'{"error": "told", "errorCode": "TOLD", "x": "' + b"x" * 70_000 + b'"}'
    kept = body[: 65_536 - 2] + b'"}'
    told = {"direct": '{"error": "told"', "hosted": "told"}[server.wire]
    for content, code in ((body, "HTTP_422"), (kept, "TOLD")):
        answering(server, surface, RawAnswer(422, {}, content))
        with pytest.raises(TinyMemoryError) as caught:
            await engine.list(LIST)
        assert caught.value.code == (code if surface.is_hosted else None)
        assert told in str(caught.value)


async def test_an_error_body_that_drips_for_ever_ends_at_the_deadline_and_keeps_its_status(
    server: CortexServer, connect: Connect, surface: Surface
) -> None:
    # §9 item 33
    answering(server, surface, replace(raw.dripping(), status=409))

    async with connect(server.url, timing=IMPATIENT) as engine:
        with pytest.raises(TinyMemoryError, match="409"):
            await engine.list(LIST)


async def test_a_body_that_drips_for_ever_ends_at_the_deadline(
    server: CortexServer, connect: Connect, surface: Surface
) -> None:
    # §9 item 34
    answering(server, surface, *[raw.dripping()] * 3)

    async with connect(server.url, timing=IMPATIENT) as engine:
        async with asyncio.timeout(10):
            with pytest.raises(UnavailableError, match="in time"):
                await engine.list(LIST)

    assert server.seen.count(f"GET /{surface.events}") == 3


async def test_a_body_cut_off_midway_is_unavailable(
    engine: CortexEngine, server: CortexServer, surface: Surface
) -> None:
    # §9 item 35
    answering(server, surface, *["close_midway"] * 3)

    with pytest.raises(UnavailableError, match="body was cut off"):
        await engine.list(LIST)

    assert server.seen.count(f"GET /{surface.events}") == 3


@pytest.mark.parametrize("status", [200, 422])
@pytest.mark.parametrize(
    "fault", [ssl.SSLError("bad record mac"), httpx.ReadError("reset"), httpx.StreamClosed(), OSError("gone")]
)
async def test_whatever_breaks_a_body_off_becomes_a_library_error(
    connect: Connect, status: int, fault: Exception
) -> None:
    # §9 item 35
    class Broken(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b'{"items": ['
            raise fault

    class Breaking(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            return httpx.Response(status, stream=Broken())

    kind, words = (UnavailableError, "body was cut off") if status == 200 else (InvalidRequestError, "422")
    async with connect("https://h", http=Breaking()) as engine:
        with pytest.raises(kind, match=words):
            await engine.list(LIST)


async def test_a_connection_dropped_before_the_answer_is_unavailable(
    engine: CortexEngine, server: CortexServer, surface: Surface
) -> None:
    # §9 item 36
    answering(server, surface, *["close"] * 3)

    with pytest.raises(UnavailableError, match="broke the connection off") as caught:
        await engine.list(LIST)

    assert not isinstance(caught.value, UnreachableError)


async def test_a_refused_port_says_so(connect: Connect, unused_tcp_port: int) -> None:
    # §9 item 36
    async with connect(f"http://127.0.0.1:{unused_tcp_port}") as engine:
        with pytest.raises(UnreachableError, match="nothing accepted the connection") as caught:
            await engine.list(LIST)

    assert f"127.0.0.1:{unused_tcp_port}" in str(caught.value)


async def test_a_name_that_does_not_resolve_says_so(connect: Connect) -> None:
    # §9 item 36
    async with connect("https://memory.invalid") as engine:
        with pytest.raises(UnreachableError, match=r"memory\.invalid was not found.*does not resolve"):
            await engine.list(LIST)


async def test_a_tls_failure_says_so(connect: Connect) -> None:
    # §9 item 36
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    listener = await asyncio.start_server(plain, "127.0.0.1", 0)
    async with listener:
        port = listener.sockets[0].getsockname()[1]
        async with connect(f"https://127.0.0.1:{port}") as engine:
            with pytest.raises(UnreachableError, match="secure connection failed") as caught:
                await engine.list(LIST)

    assert any(isinstance(error, ssl.SSLError | httpx.ConnectError) for error in causes(caught.value))


async def test_a_server_that_never_answers_says_that_the_time_ran_out(connect: Connect) -> None:
    # §9 item 36
    silent = asyncio.Event()

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await silent.wait()
        writer.close()

    listener = await asyncio.start_server(hold, "127.0.0.1", 0)
    async with listener:
        port = listener.sockets[0].getsockname()[1]
        async with connect(f"http://127.0.0.1:{port}", timing=IMPATIENT) as engine:
            with pytest.raises(UnavailableError, match="did not answer in time"):
                await engine.list(LIST)
        silent.set()


async def test_answers_may_come_from_a_mock_transport(connect: Connect) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"success": True, "data": {"items": []}, "items": []})

    async with connect("https://cortex.example.com", http=httpx.MockTransport(answer)) as engine:
        assert (await engine.list(LIST)).items == []
        assert (await engine.health()).state == "ok"


async def test_what_a_transport_raises_becomes_a_library_error(connect: Connect) -> None:
    for error in (httpx.ReadError("gone"), httpx.PoolTimeout("full"), ValueError("odd"), OSError("no route")):

        async def fail(request: httpx.Request, error: Exception = error) -> httpx.Response:
            raise error

        async with connect("https://h", http=httpx.MockTransport(fail)) as engine:
            with pytest.raises(TinyMemoryError) as caught:
                await engine.list(LIST)
            assert caught.value.__cause__ is error


def causes(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    current: BaseException | None = error
    while current is not None:
        found.append(current)
        current = current.__cause__ or current.__context__
    return found


SPELLINGS = st.sampled_from(
    ["1e400", "-1e400", "-0", "-0.0", "1E5", "1234567890123456789012", "0.1e-320", r'"\u0041\/"', "[]"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
).map(json.dumps)
REPEATED_NAMES = st.tuples(SPELLINGS, SPELLINGS).map('{{"a":{0[0]},"a":{0[1]}}}'.format)
ALMOST_JSON = st.text(alphabet='[]{}",:0123456789eE+-.aNInfity\\ \ufeff', max_size=20)


def read_by(reader: Callable[[bytes], Any], body: bytes) -> str | None:
    """What a reader makes of a body; None when it refuses it."""
    try:
        return json.dumps(reader(body))
    except ValueError:
        return None


def pythons_own(body: bytes) -> Any:
    def refuse(name: str) -> float:
        raise ValueError(name)

    return json.loads(body.decode("utf-8-sig"), parse_constant=refuse)


@given((JSON | SPELLINGS | REPEATED_NAMES | ALMOST_JSON).map(str.encode) | st.binary(max_size=40))
def test_json_is_read_and_refused_as_by_pythons_own_reader(body: bytes) -> None:
    assert read_by(bodies.parse_json, body) == read_by(pythons_own, body)
