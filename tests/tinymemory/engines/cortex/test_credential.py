"""§9 items 6 to 14: the credential, default headers, cookies and redirects."""

import asyncio
import itertools
import json
import logging
import pickle
import re
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from tinymemory import (
    ConfigError,
    EngineError,
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
from tinymemory.engines.cortex import CortexEngine
from tinymemory.engines.cortex.surface import Surface
from tinymemory.testing import CortexServer, RawAnswer, cortex_server, raw

Connect = Callable[..., CortexEngine]
ROOT_LEARNINGS = MetaFilter(reach=Reach(), kinds=(ItemKind.LEARNING,))
TOKEN = "sk-live-0123456789abcdef"


async def test_a_bearer_source_is_asked_on_every_attempt(
    server: CortexServer, connect: Connect, surface: Surface
) -> None:
    # §9 item 6
    tokens = iter(f"token-{number}" for number in range(100))
    server.knobs.rate_limit_recalls = 2

    async with connect(server.url, lambda: next(tokens)) as engine:
        await engine.fetch(
            FetchRequest.model_validate({"query": "tides", "filter": {"reach": {}, "kinds": ["learning"]}})
        )

    sent = [
        auth
        for auth, line in zip(server.seen.auth, server.seen.requests, strict=True)
        if surface.recall in line
    ]
    assert len(sent) == 3
    assert len(set(sent)) == 3


async def test_an_async_source_is_awaited_and_its_token_trimmed(
    server: CortexServer, connect: Connect
) -> None:
    # §9 item 6
    async def source() -> str:
        return f" {TOKEN}\n"

    async with connect(server.url, source) as engine:
        assert (await engine.health()).state == "ok"

    assert server.seen.auth == [f"Bearer {TOKEN}"]


async def test_the_actor_lookup_asks_the_source_too() -> None:
    # §9 item 6
    asked: list[int] = []

    async with cortex_server("direct") as server:
        async with CortexEngine.direct(server.url, lambda: asked.append(1) or f"t{len(asked)}") as engine:
            await engine.health()

        assert server.seen.whoami[0]["authorization"] == "Bearer t1"
        assert server.seen.auth == ["Bearer t2"]


def fails() -> str:
    raise RuntimeError(f"vault refused {TOKEN}")


async def fails_later() -> str:
    return fails()


@pytest.mark.parametrize("source", [fails, fails_later, lambda: "", lambda: " \t ", lambda: None, lambda: 7])
async def test_a_source_that_raises_or_gives_nothing_is_unauthorized_and_sends_nothing(
    server: CortexServer, connect: Connect, source: Callable[[], str]
) -> None:
    # §9 item 7
    async with connect(server.url, source) as engine:
        with pytest.raises(UnauthorizedError) as caught:
            await engine.list(ListRequest())

    assert TOKEN not in f"{caught.value}{caught.value.__cause__!r}{caught.value.__context__!r}"
    assert server.seen.requests == []
    assert server.seen.whoami == []


async def test_a_failing_source_is_named_by_its_class_alone(server: CortexServer, connect: Connect) -> None:
    # §9 item 7
    async with connect(server.url, fails) as engine:
        with pytest.raises(UnauthorizedError, match=r"RuntimeError$"):
            await engine.list(ListRequest())


@pytest.mark.parametrize("bad", ["a\r\nX-Evil: 1", "a\nb", "a\x00b", "a\x7fb", "a\x85b", "clé-€", "日本"])
async def test_a_token_that_no_header_can_carry_is_unauthorized_and_sends_nothing(
    server: CortexServer, connect: Connect, bad: str
) -> None:
    # §9 item 8
    for credential in (f"{TOKEN}{bad}", lambda: f"{TOKEN}{bad}"):
        async with connect(server.url, credential) as engine:
            with pytest.raises(UnauthorizedError) as caught:
                await engine.list(ListRequest())
        assert TOKEN not in str(caught.value)

    assert server.seen.requests == []
    assert server.seen.whoami == []


async def test_nothing_shown_logged_raised_or_pickled_holds_the_token(
    server: CortexServer, connect: Connect, surface: Surface, caplog: pytest.LogCaptureFixture
) -> None:
    # §9 item 9
    caplog.set_level(logging.DEBUG)
    echo = RawAnswer(500, {}, f'{{"error": "no such key: {TOKEN}", "message": "Bearer {TOKEN}"}}'.encode())
    shown: list[str] = []
    for answer in (
        echo,
        RawAnswer(401, {}, echo.body),
        RawAnswer(200, {}, TOKEN.encode()),
    ):
        server.knobs.raw_answers = {f"GET /{surface.events}": [answer] * 6}
        async with connect(server.url, TOKEN) as engine:
            shown.append(repr(engine))
            with pytest.raises(TypeError):
                pickle.dumps(engine)
            with pytest.raises(TinyMemoryError) as caught:
                await engine.list(ListRequest(filter=ROOT_LEARNINGS))
            assert pickle.loads(pickle.dumps(caught.value)) == caught.value
            shown += [str(caught.value), repr(caught.value), repr(caught.value.__cause__)]
            shown.append(str(pickle.dumps(caught.value)))
        server.knobs.fail_all = (403, TOKEN)
        async with connect(server.url, TOKEN) as engine:
            shown.append(repr(await engine.health()))
        server.knobs.fail_all = None
    shown += [record.getMessage() for record in caplog.records]

    assert any("***" in text for text in shown)
    assert not [text for text in shown if TOKEN in text]


TOKENS = [
    "SKLIVE0123456789",
    'sk-"quoted"-0123',
    "sk-it's-0123",
    "sk-\\back-0123",
    "sk-caf\xe9-0123",
    "sk 0123 two",
]


@pytest.mark.parametrize("token", TOKENS)
@pytest.mark.parametrize(
    "answer",
    [
        "HTTP/1.1 {token} nope\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon {token}\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{token}\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: {token}\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Encoding: {token}\r\n\r\n",
        "HTTP/1.1 302 Found\r\nLocation: https://elsewhere/{token}\r\n\r\n{token}",
        "HTTP/1.1 200 OK\r\n\r\n{token}\xff",
        "HTTP/1.1 401 No\r\n\r\n{token}",
        'HTTP/1.1 500 No\r\n\r\n{{"error": {json}, "errorCode": {json}, "error_code": {json}}}',
        'HTTP/1.1 200 OK\r\n\r\n{{"success": false, "error": {{"key": {json}}}, "errorCode": {json}}}',
    ],
)
async def test_no_traceback_holds_a_token_however_a_server_repeats_it(
    connect: Connect, answer: str, token: str
) -> None:
    # §9 item 9
    head, _, body = answer.format(token=token, json=json.dumps(token)).partition("\r\n\r\n")

    async def repeat(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
        writer.write(f"{head}\r\n\r\n{body}".encode("latin-1"))
        writer.close()

    listener = await asyncio.start_server(repeat, "127.0.0.1", 0)
    async with listener:
        url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        async with connect(url, token) as engine:
            health = repr(await engine.health())
            try:
                await engine.list(ListRequest(filter=ROOT_LEARNINGS))
            except TinyMemoryError as error:
                told = "".join(traceback.format_exception(error)) + f"{error!r}{error.__cause__!r}"
            else:
                told = ""

    for part in re.findall(r"[A-Z0-9]{4,}|[a-z]{5,}", token):
        assert part not in health + told


async def test_no_log_line_holds_a_token_that_a_pack_repeats(
    server: CortexServer, connect: Connect, surface: Surface, caplog: pytest.LogCaptureFixture
) -> None:
    # §9 item 9
    caplog.set_level(logging.DEBUG, "tinymemory")
    pack: dict[str, Any] = {
        "pack_id": "p",
        "layers": {},
        "warnings": [f"slow for {TOKEN}-1", f"slow for {TOKEN}-2"],
    }
    answer = raw.json_answer({**pack, "success": True, "data": pack})
    server.knobs.raw_answers = {f"POST /{surface.recall}": [answer]}
    tokens = itertools.count(1)

    async with connect(server.url, lambda: f"{TOKEN}-{next(tokens)}") as engine:
        await engine.health()
        await engine.fetch(FetchRequest(query="tide", filter=ROOT_LEARNINGS))

    logged = [record.getMessage() for record in caplog.records]
    assert "pack warning: slow for ***" in logged
    assert not [line for line in logged if TOKEN in line]


async def test_default_headers_ride_every_request_and_a_second_set_replaces_the_first(
    server: CortexServer, connect: Connect
) -> None:
    # §9 item 10
    async with connect(server.url) as plain:
        first = plain.with_default_headers({"X-SDK-Name": " openhuman ", "x-first": "1"})
        second = first.with_default_headers({"x-second": "2"})
        await first.store(Learning(text="first"))
        after_first = len(server.seen.headers)
        await second.store(Learning(text="second"))

    assert all(sent["x-sdk-name"] == "openhuman" for sent in server.seen.headers[:after_first])
    assert all(sent["x-sdk-name"] == "openhuman" for sent in server.seen.whoami)
    assert all(sent["x-second"] == "2" for sent in server.seen.headers[after_first:])
    assert not any("x-first" in sent for sent in server.seen.headers[after_first:])


RESERVED = (
    "authorization", "proxy-authorization", "cookie", "host", "content-length", "content-type",
    "content-encoding", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade", "expect",
    "accept-encoding", "idempotency-key", "x-cortex-actor",
)  # fmt: skip


@pytest.mark.parametrize("name", RESERVED)
def test_a_reserved_header_is_refused_in_any_letter_case(connect: Connect, name: str) -> None:
    # §9 item 11
    for spelling in (name, name.upper(), name.title(), f" {name} "):
        with pytest.raises(ConfigError) as caught:
            connect("https://h").with_default_headers({spelling: "s3cret-value"})
        assert "s3cret-value" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("", "v"),
        ("a b", "v"),
        ("a:b", "v"),
        ("é", "v"),
        ("a\n", "s\nx"),
        ("x", "a\r\nb"),
        ("x", "a\x00"),
        ("x", "€"),
    ],
)
def test_an_invalid_header_name_or_value_is_a_configuration_error(
    connect: Connect, name: str, value: str
) -> None:
    # §9 item 12
    with pytest.raises(ConfigError):
        connect("https://h").with_default_headers({name: value})


async def test_a_cookie_the_server_sets_is_not_sent_back(
    server: CortexServer, connect: Connect, surface: Surface
) -> None:
    # §9 item 13
    answer = raw.json_answer({"success": True, "data": {"items": []}, "items": []})
    cookie = RawAnswer(200, {**answer.headers, "Set-Cookie": "session=1; Path=/"}, answer.body)
    server.knobs.raw_answers = {f"GET /{surface.events}": [cookie]}

    async with connect(server.url) as engine:
        for _ in range(2):
            await engine.list(ListRequest(filter=ROOT_LEARNINGS))

    assert server.seen.count(f"GET /{surface.events}") == 2
    assert not any("cookie" in sent for sent in server.seen.headers)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(
    server: CortexServer, connect: Connect, surface: Surface, status: int
) -> None:
    # §9 item 14
    async with cortex_server(server.wire) as elsewhere:
        server.knobs.raw_answers = {f"GET /{surface.events}": [raw.redirect(f"{elsewhere.url}/x", status)]}
        async with connect(server.url) as engine:
            with pytest.raises(EngineError, match=str(status)) as caught:
                await engine.list(ListRequest(filter=ROOT_LEARNINGS))

        assert elsewhere.seen.requests == []
        assert elsewhere.url not in str(caught.value)
    assert server.seen.count(f"GET /{surface.events}") == 1


async def test_a_closed_engine_says_so_and_closes_twice(server: CortexServer, connect: Connect) -> None:
    engine = connect(server.url)
    await engine.health()

    await engine.aclose()
    await engine.aclose()

    with pytest.raises(EngineError, match="closed"):
        await engine.list(ListRequest())
    with pytest.raises(EngineError, match="closed"):
        await engine.with_default_headers({}).recall(RecallRequest(question="any"))
    assert not isinstance(EngineError("x"), UnavailableError)


async def test_in_clear_text_no_proxy_of_the_environment_is_asked(
    server: CortexServer, connect: Connect, monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{unused_tcp_port}")
    monkeypatch.setenv("no_proxy", "")

    async with connect(server.url) as engine:
        assert (await engine.health()).state == "ok"


@pytest.mark.parametrize("spelling", ["http://127.0.0.1:{port}", "127.0.0.1:{port}"])
async def test_over_tls_the_proxy_of_the_environment_carries_the_tunnel(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, spelling: str
) -> None:
    asked: list[bytes] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 403 Forbidden\r\n\r\n")
        writer.close()

    listener = await asyncio.start_server(proxy, "127.0.0.1", 0)
    async with listener:
        monkeypatch.setenv("https_proxy", spelling.format(port=listener.sockets[0].getsockname()[1]))
        monkeypatch.setenv("no_proxy", "")
        async with connect("https://cortex.example.com", TOKEN) as engine:
            assert (await engine.health()).state == "degraded"

    assert asked[0].startswith(b"CONNECT cortex.example.com:443")
    assert not any(TOKEN.encode() in request for request in asked)


async def test_a_proxy_that_cannot_be_used_is_a_configuration_error(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", "gopher://127.0.0.1:70")
    monkeypatch.setenv("no_proxy", "")

    async with connect("https://cortex.example.com") as engine:
        with pytest.raises(ConfigError, match="proxy"):
            await engine.list(ListRequest(filter=ROOT_LEARNINGS))
