"""Each knob spoils what it says, as often as it says."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Literal, get_args

import httpx
import pytest

from tinymemory.testing import CortexServer, Knobs, cortex_server

Event = Callable[..., dict[str, Any]]
WireName = Literal["direct", "hosted"]
NOTES = "app:tinymemory/app:learnings"


@pytest.fixture(params=get_args(WireName))
async def server(request: pytest.FixtureRequest) -> AsyncIterator[CortexServer]:
    async with cortex_server(wire=request.param, clock="manual") as server:
        yield server


class Caller:
    """Calls either wire and unwraps the hosted envelope."""

    def __init__(self, server: CortexServer, http: httpx.AsyncClient) -> None:
        self.base = {"direct": "/v1", "hosted": "/memory"}[server.wire]
        self.scopes_route = {"direct": "/v1/scopes/list", "hosted": "/memory/scopes"}[server.wire]
        self.http = http

    async def post(self, route: str, body: dict[str, Any]) -> httpx.Response:
        return await self.http.post(f"{self.base}/{route}", json=body)

    async def append(self, body: dict[str, Any]) -> int:
        return (await self.post("experience", body)).status_code

    async def events(self, **params: str) -> httpx.Response:
        return await self.http.get(f"{self.base}/events", params={"scope": NOTES, **params})

    async def page(self, **params: str) -> dict[str, Any]:
        return self.data(await self.events(**params))

    async def recall(self, **body: Any) -> httpx.Response:
        return await self.post("recall", {"scope": NOTES, "query": "", "include": ["events"], **body})

    async def answer(self, pack: str) -> int:
        body = {"scope": NOTES, "question": "what?", "use_pack_id": pack}
        return (await self.post("answer", body)).status_code

    async def forget(self, *ids: str) -> int:
        body = {"scope": NOTES, "selector": {"memory_ids": list(ids)}, "cascade": "redact_events"}
        return (await self.post("forget", body)).status_code

    async def scopes(self, **params: str) -> list[str]:
        found = self.data(await self.http.get(self.scopes_route, params=params))
        return found["scopes"] if "scopes" in found else [item["path"] for item in found["items"]]

    @staticmethod
    def data(answer: httpx.Response) -> Any:
        assert answer.is_success, answer.text
        body = answer.json()
        return body.get("data", body)


@pytest.fixture
async def call(server: CortexServer) -> AsyncIterator[Caller]:
    headers = {"Authorization": "Bearer key"}
    async with httpx.AsyncClient(base_url=server.url, headers=headers) as http:
        yield Caller(server, http)


async def test_an_unknown_knob_is_refused() -> None:
    with pytest.raises(TypeError, match="extraction_dealy"):
        async with cortex_server("direct", extraction_dealy=3):
            pass
    with pytest.raises(AttributeError):
        setattr(Knobs(), "extraction_dealy", 3)  # noqa: B010  # what a test's typing slip would do


# 429s.


@pytest.mark.parametrize("route", ["events", "writes", "forgets", "recalls"])
async def test_so_many_requests_are_limited(
    server: CortexServer, call: Caller, event: Event, route: str
) -> None:
    setattr(server.knobs, f"rate_limit_{route}", 2)
    server.knobs.rate_limit_headers = {"Retry-After": "3"}

    async def once() -> int:
        match route:
            case "events":
                return (await call.events()).status_code
            case "writes":
                return await call.append(event())
            case "forgets":
                return await call.forget("evt_9")
            case _:
                return (await call.recall()).status_code

    statuses = [await once() for _ in range(3)]

    assert statuses == [429, 429, 202 if route == "writes" else 200]
    assert getattr(server.knobs, f"rate_limit_{route}") == 0


async def test_a_limit_says_for_how_long_in_the_headers_named(server: CortexServer, call: Caller) -> None:
    server.knobs.rate_limit_events = 2
    silent = await call.events()
    server.knobs.rate_limit_headers = {"RateLimit-Reset": 12}
    telling = await call.events()

    assert not {"retry-after", "ratelimit-reset"} & set(silent.headers)
    assert telling.headers["RateLimit-Reset"] == "12"
    assert "Retry-After" not in telling.headers


async def test_a_state_change_is_told_apart_by_its_code(server: CortexServer, call: Caller) -> None:
    server.knobs.state_change_events = 1

    changed = await call.events()
    settled = await call.events()

    assert changed.status_code == 503
    assert "AUTHORIZATION_STATE_CHANGED" in changed.json().values()
    assert settled.status_code == 200


# Listings.


async def test_a_hidden_listing_is_empty_and_complete(
    server: CortexServer, call: Caller, event: Event
) -> None:
    server.log.append(event())
    server.knobs.hide_listing = 1

    hidden = await call.page()
    shown = await call.page()

    assert (hidden["items"], hidden["has_more"]) == ([], False)
    assert len(shown["items"]) == 2


async def test_faults_can_be_aimed_behind_the_next_write(
    server: CortexServer, call: Caller, event: Event
) -> None:
    server.knobs.arm_after_write = (1, 1)

    before = (await call.events()).status_code
    refused = await call.append(event(""))
    still = (await call.events()).status_code
    written = await call.append(event())
    limited = (await call.events()).status_code
    hidden = (await call.page())["items"]
    shown = (await call.page())["items"]

    assert (before, still) == (200, 200)
    assert refused in (400, 422)
    assert (written, limited, hidden, len(shown)) == (202, 429, [], 2)
    assert server.knobs.arm_after_write is None


async def test_a_stuck_listing_repeats_the_cursor_it_was_given(
    server: CortexServer, call: Caller, event: Event
) -> None:
    server.log.append(event())
    server.knobs.stuck_cursor = True

    page = await call.page(cursor="1")

    assert (page["next_cursor"], page["has_more"]) == ("1", True)


async def test_an_endless_listing_always_names_a_new_cursor(
    server: CortexServer, call: Caller, event: Event
) -> None:
    server.log.append(event())
    server.knobs.endless_listing = True

    cursors, cursor = set[str](), "0"
    for _ in range(10):
        page = await call.page(cursor=cursor, limit="200")
        assert page["has_more"] is True
        cursor = page["next_cursor"]
        cursors.add(cursor)

    assert len(cursors) == 10


async def test_delayed_listings_and_recalls_are_counted_in_flight(server: CortexServer, call: Caller) -> None:
    server.knobs.listing_delay = server.knobs.recall_delay = 0.05

    await asyncio.gather(*(call.events() for _ in range(3)), *(call.recall() for _ in range(2)))

    assert (server.seen.listings_peak, server.seen.recalls_peak) == (3, 2)
    assert (server.seen.listings_in_flight, server.seen.recalls_in_flight) == (0, 0)


# Writes.


async def test_an_append_can_be_applied_and_then_fail(
    server: CortexServer, call: Caller, event: Event
) -> None:
    server.knobs.apply_then_fail = 1

    assert await call.append(event("one")) == 503
    assert [stored.text for stored in server.log.events(NOTES)] == ["one"]
    assert await call.append(event("two")) == 202


async def test_an_append_can_be_claimed_and_not_applied(
    server: CortexServer, call: Caller, event: Event
) -> None:
    server.knobs.claim_then_fail = 1
    claim = {"Idempotency-Key": "claim-1"}

    lost = await call.http.post(f"{call.base}/experience", json=event(), headers=claim)
    again = await call.http.post(f"{call.base}/experience", json=event(), headers=claim)

    assert lost.status_code == 502
    assert again.status_code == (400 if server.wire == "hosted" else 202)


async def test_the_nth_write_is_refused_once_and_not_applied(
    server: CortexServer, call: Caller, event: Event
) -> None:
    server.knobs.fail_nth_write = 2

    statuses = [await call.append(event(text)) for text in ("one", "two", "three")]

    assert statuses == [202, 400, 202]
    assert [stored.text for stored in server.log.events(NOTES)] == ["one", "three"]


async def test_write_faults_apply_to_each_event_of_a_bulk(direct: CortexServer, event: Event) -> None:
    items = {"items": [event("one"), event("two"), event("three")]}
    headers = {"Authorization": "Bearer key"}
    async with httpx.AsyncClient(base_url=direct.url, headers=headers) as http:
        direct.knobs.fail_nth_write = 2
        refused = await http.post("/v1/experience/bulk", json=items)
        direct.knobs.apply_then_fail = 1
        applied = await http.post("/v1/experience/bulk", json=items)

    assert (refused.status_code, applied.status_code) == (400, 503)
    assert [stored.text for stored in direct.log.events(NOTES)] == ["one", "one"]


async def test_a_forget_can_be_applied_and_then_fail(
    server: CortexServer, call: Caller, event: Event
) -> None:
    server.log.append(event())
    server.knobs.forget_apply_then_fail = 1

    assert await call.forget("evt_1") == 503
    assert server.log.events(NOTES) == []
    assert await call.forget("evt_1") == 200


async def test_a_forget_of_nothing_can_be_not_found(server: CortexServer, call: Caller, event: Event) -> None:
    server.log.append(event())
    server.knobs.forget_missing_404 = True

    assert [await call.forget("evt_1", "evt_9"), await call.forget("evt_1")] == [200, 404]


# Recall and answer.


async def test_recall_and_answer_can_be_down(server: CortexServer, call: Caller) -> None:
    pack = call.data(await call.recall())["pack_id"]
    server.knobs.recall_down = server.knobs.answer_down = True

    assert (await call.recall()).status_code == {"direct": 500, "hosted": 502}[server.wire]
    assert await call.answer(pack) == 503


async def test_a_recall_can_be_refused_always_or_for_its_hint(server: CortexServer, call: Caller) -> None:
    refusal = {"direct": 422, "hosted": 400}[server.wire]
    days = {"refers_during": {"from": "2026-01-02", "to": "2026-01-02"}}

    server.knobs.refuse_temporal = True
    assert (await call.recall(temporal=days)).status_code == refusal
    assert (await call.recall()).status_code == 200
    server.knobs.refuse_recall = True
    assert (await call.recall()).status_code == refusal


async def test_packs_can_expire_before_they_are_answered(server: CortexServer, call: Caller) -> None:
    packs = [call.data(await call.recall())["pack_id"] for _ in range(2)]
    server.knobs.expire_packs = 1

    assert [await call.answer(pack) for pack in packs] == [404, 404]
    assert await call.answer(call.data(await call.recall())["pack_id"]) == 200


async def test_pack_events_can_render_their_role_as_old_servers_do(
    server: CortexServer, call: Caller, event: Event
) -> None:
    server.log.append(event("hi", role="assistant"))
    server.knobs.recall_role_prefix = True

    packed = call.data(await call.recall())["layers"]["events"]
    listed = (await call.page())["items"]

    assert packed[0]["content"]["text"] == "[assistant] hi"
    assert listed[0]["content"]["text"] == "hi"


async def test_the_answers_text_is_a_knob(server: CortexServer, call: Caller) -> None:
    server.knobs.answer_text = ""
    pack = call.data(await call.recall())["pack_id"]

    answer = await call.post("answer", {"scope": NOTES, "question": "what?", "use_pack_id": pack})

    assert call.data(answer)["answer"] == ""


# Scopes.


async def test_prefixes_can_match_as_plain_strings(server: CortexServer, call: Caller, event: Event) -> None:
    for user in ("ann", "anna"):
        server.log.append(event(scope=f"app:tinymemory/user:{user}"))

    whole = await call.scopes(prefix="app:tinymemory/user:ann")
    server.knobs.string_prefix_scopes = True
    plain = await call.scopes(prefix="app:tinymemory/user:ann")

    assert (len(whole), len(plain)) == (1, 2)


async def test_padding_scopes_are_registered_and_empty(server: CortexServer, call: Caller) -> None:
    server.knobs.padding_scopes = 2

    paths = [path.removeprefix("org:t1/") for path in await call.scopes(prefix="app:tinymemory")]

    assert paths == [
        "app:tinymemory/agent:pad-0000/app:learnings",
        "app:tinymemory/agent:pad-0001/app:learnings",
    ]


async def test_the_scope_listing_can_be_missing(server: CortexServer, call: Caller) -> None:
    server.knobs.scope_listing_missing = True

    assert (await call.http.get(call.scopes_route)).status_code == 404
