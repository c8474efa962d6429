"""What both wires do with a request before its route, and what they remember of it."""

from collections.abc import AsyncIterator, Callable
from typing import Any, Literal, get_args

import httpx
import pytest

from tinymemory.testing import CortexServer, cortex_server

Event = Callable[..., dict[str, Any]]
WireName = Literal["direct", "hosted"]
NOTES = "app:tinymemory/app:learnings"
EVENTS = {"direct": "/v1/events", "hosted": "/memory/events"}
WHOAMI = "/v1/auth/whoami"


@pytest.fixture(params=get_args(WireName))
async def server(request: pytest.FixtureRequest) -> AsyncIterator[CortexServer]:
    async with cortex_server(wire=request.param, clock="manual") as server:
        yield server


@pytest.fixture
async def client(server: CortexServer) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=server.url, params={"scope": NOTES}) as client:
        yield client


def bearer(token: str = "key") -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def code(answer: httpx.Response) -> str:
    body = answer.json()
    return body.get("error_code") or body.get("errorCode")


@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Bearer"}, {"Authorization": "Basic a2V5"}, {"Authorization": "key"}]
)
async def test_a_request_without_a_bearer_is_unauthorized(
    server: CortexServer, client: httpx.AsyncClient, headers: dict[str, str]
) -> None:
    answer = await client.get(EVENTS[server.wire], headers=headers)

    assert (answer.status_code, code(answer)) == (401, "UNAUTHORIZED")
    assert server.seen.count() == 1


async def test_any_bearer_is_accepted_unless_one_is_named(
    server: CortexServer, client: httpx.AsyncClient
) -> None:
    anyone = await client.get(EVENTS[server.wire], headers=bearer("whoever"))
    server.knobs.accept_token = "key"
    wrong = await client.get(EVENTS[server.wire], headers=bearer("whoever"))
    right = await client.get(EVENTS[server.wire], headers=bearer("key"))

    assert [answer.status_code for answer in (anyone, wrong, right)] == [200, 401, 200]


async def test_everything_can_fail_with_one_status_and_code(
    server: CortexServer, client: httpx.AsyncClient
) -> None:
    server.knobs.fail_all = (409, "NOT_NOW")

    answers = [await client.get(path, headers=bearer()) for path in (EVENTS[server.wire], "/nowhere")]

    assert [(answer.status_code, code(answer)) for answer in answers] == [(409, "NOT_NOW")] * 2


async def test_the_key_is_checked_before_everything_fails(
    server: CortexServer, client: httpx.AsyncClient
) -> None:
    server.knobs.fail_all = (409, "NOT_NOW")

    assert (await client.get(EVENTS[server.wire])).status_code == 401


async def test_everything_fails_before_a_raw_answer_is_used_up(
    server: CortexServer, client: httpx.AsyncClient
) -> None:
    server.knobs.fail_all = (409, "NOT_NOW")
    server.knobs.raw_answers["GET /"] = ["html_502"]

    failed = await client.get(EVENTS[server.wire], headers=bearer())
    server.knobs.fail_all = None
    raw = await client.get(EVENTS[server.wire], headers=bearer())

    assert (failed.status_code, raw.status_code) == (409, 502)


async def test_a_raw_answer_comes_before_the_rate_limit(
    server: CortexServer, client: httpx.AsyncClient
) -> None:
    server.knobs.rate_limit_per_minute = 0
    server.knobs.raw_answers["GET /"] = ["not_json"]

    raw = await client.get(EVENTS[server.wire], headers=bearer())
    limited = await client.get(EVENTS[server.wire], headers=bearer())

    assert (raw.status_code, limited.status_code) == (200, 429)


async def test_a_real_budget_is_counted_by_bearer_in_a_window_of_a_minute(
    server: CortexServer, client: httpx.AsyncClient
) -> None:
    server.knobs.rate_limit_per_minute = 2
    server.knobs.rate_limit_headers = {"Retry-After": None, "RateLimit-Reset": 7}

    async def statuses(token: str, times: int) -> list[int]:
        got = [await client.get(EVENTS[server.wire], headers=bearer(token)) for _ in range(times)]
        return [answer.status_code for answer in got]

    first = await statuses("ann", 3)
    other = await statuses("bob", 1)
    server.clock.advance(20.5)
    limited = await client.get(EVENTS[server.wire], headers=bearer("ann"))
    server.clock.advance(39.5)
    later = await statuses("ann", 1)

    assert (first, other, later) == ([200, 200, 429], [200], [200])
    assert limited.headers["Retry-After"] == "40"
    assert limited.headers["RateLimit-Reset"] == "7"
    assert server.seen.limited == 2


async def test_a_budget_s_window_can_be_shorter_than_a_minute(
    server: CortexServer, client: httpx.AsyncClient
) -> None:
    server.knobs.rate_limit_per_minute, server.knobs.rate_limit_window = 1, 5
    server.knobs.rate_limit_headers = {"Retry-After": None}

    first, limited = [await client.get(EVENTS[server.wire], headers=bearer()) for _ in range(2)]
    server.clock.advance(5)
    later = await client.get(EVENTS[server.wire], headers=bearer())

    assert [first.status_code, limited.status_code, later.status_code] == [200, 429, 200]
    assert limited.headers["Retry-After"] == "5"
    assert server.seen.limited == 1
    server.seen.clear()
    assert server.seen.limited == 0


async def test_an_unknown_route_and_a_wrong_method_are_not_found(
    server: CortexServer, client: httpx.AsyncClient
) -> None:
    nowhere = await client.get("/v2/events", headers=bearer())
    wrong = await client.put(EVENTS[server.wire], headers=bearer())

    assert (nowhere.status_code, wrong.status_code) == (404, 404)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"7", b"null", b'"text"', b'{"text": "\\ud800"}', b"\xff"]
)
async def test_a_body_that_is_no_json_object_is_bad_json(
    server: CortexServer, client: httpx.AsyncClient, content: bytes
) -> None:
    path = {"direct": "/v1/experience", "hosted": "/memory/experience"}[server.wire]

    answer = await client.post(path, content=content, headers=bearer())

    assert (answer.status_code, code(answer)) == (400, "BAD_JSON")


async def test_requests_are_kept_as_sent_with_their_headers(
    server: CortexServer, client: httpx.AsyncClient
) -> None:
    path = EVENTS[server.wire]

    await client.get(path, params={"labels": "a,b"}, headers={**bearer(), "X-SDK-Name": "tests"})
    await client.get(path)

    assert server.seen.requests == [
        f"GET {path}?scope=app%3Atinymemory%2Fapp%3Alearnings&labels=a%2Cb",
        f"GET {path}?scope=app%3Atinymemory%2Fapp%3Alearnings",
    ]
    assert server.seen.auth == ["Bearer key", None]
    assert server.seen.headers[0]["x-sdk-name"] == "tests"
    assert server.seen.count(f"GET {path}") == 2
    assert server.seen.count("POST ") == 0


async def test_what_was_seen_can_be_cleared(server: CortexServer, client: httpx.AsyncClient) -> None:
    await client.get(EVENTS[server.wire], headers=bearer())

    server.seen.clear()

    assert (server.seen.requests, server.seen.auth, server.seen.headers) == ([], [], [])


# Direct only: whoami stands before the gate.


async def test_whoami_is_answered_without_a_key_and_kept_apart(direct: CortexServer) -> None:
    direct.knobs.fail_all = (500, "DOWN")
    async with httpx.AsyncClient(base_url=direct.url) as client:
        answer = await client.get(WHOAMI, headers={"X-SDK-Name": "tests"})

    assert answer.json() == {"caller": "user:local"}
    assert direct.seen.requests == []
    assert [headers["x-sdk-name"] for headers in direct.seen.whoami] == ["tests"]


async def test_whoami_can_name_nobody_or_fail(direct: CortexServer) -> None:
    async with httpx.AsyncClient(base_url=direct.url) as client:
        direct.knobs.whoami_caller = None
        missing = await client.get(WHOAMI)
        direct.knobs.whoami_status = 503
        failing = await client.get(WHOAMI)

    assert (missing.status_code, failing.status_code) == (404, 503)


async def test_whoami_takes_only_raw_answers_meant_for_it(direct: CortexServer) -> None:
    direct.knobs.raw_answers["GET /"] = ["html_502"]
    direct.knobs.raw_answers[f"GET {WHOAMI}"] = ["not_json"]
    async with httpx.AsyncClient(base_url=direct.url) as client:
        raw = await client.get(WHOAMI)
        plain = await client.get(WHOAMI)

    assert raw.text == "the memory is fine, thank you"
    assert plain.json() == {"caller": "user:local"}
    assert direct.knobs.raw_answers["GET /"] == ["html_502"]
