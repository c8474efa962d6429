"""The hosted wire's own: envelope, tenant, claims, and what becomes of CortexDB's failures."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tinymemory.testing import Clock, CortexServer, EventLog, Knobs, Seen
from tinymemory.testing.hosted import HostedWire
from tinymemory.testing.recall import Packs
from tinymemory.testing.refusal import RefusalError

Event = Callable[..., dict[str, Any]]
NOTES = "app:tinymemory/app:learnings"
TENANT_NOTES = f"org:t1/{NOTES}"


async def append(
    backend: httpx.AsyncClient, body: dict[str, Any], claim: str | None = None
) -> httpx.Response:
    headers = {} if claim is None else {"Idempotency-Key": claim}
    return await backend.post("/memory/experience", json=body, headers=headers)


def failure(answer: httpx.Response) -> tuple[int, str]:
    body = answer.json()
    assert body == {
        "success": False,
        "error": f"refused: {body['errorCode']}",
        "errorCode": body["errorCode"],
    }
    return answer.status_code, body["errorCode"]


# Envelope and tenant.


async def test_a_success_is_wrapped(backend: httpx.AsyncClient, event: Event) -> None:
    answer = await append(backend, event())

    assert answer.status_code == 202
    assert answer.json() == {
        "success": True,
        "data": {"event_id": "evt_1", "status": "captured", "replayed_from_idempotency": False},
    }


async def test_every_path_read_back_starts_with_the_tenant(
    hosted: CortexServer, backend: httpx.AsyncClient, event: Event
) -> None:
    await append(backend, event())
    limits = {"events": 1, "facts": 1, "beliefs": 1}
    budgets = {"max_tokens": 4000, "per_layer_limits": limits}
    recall = {"scope": NOTES, "query": "", "include": list(limits), "budgets": budgets}

    scopes = (await backend.get("/memory/scopes", params={"prefix": "app:tinymemory"})).json()
    listed = (await backend.get("/memory/events", params={"scope": NOTES})).json()
    pack = (await backend.post("/memory/recall", json=recall)).json()

    assert scopes["data"] == {"scopes": [TENANT_NOTES]}
    assert listed["data"]["items"][0]["scope"] == TENANT_NOTES
    shown = {
        layer: [entry["scope"] for entry in entries] for layer, entries in pack["data"]["layers"].items()
    }
    assert shown == {"events": [TENANT_NOTES], "facts": [TENANT_NOTES], "beliefs": [TENANT_NOTES]}
    assert [stored.scope for stored in hosted.log.events(NOTES)] == [NOTES]


async def test_the_tenant_is_a_knob(hosted: CortexServer, backend: httpx.AsyncClient, event: Event) -> None:
    hosted.knobs.tenant_prefix = "org:other"
    await append(backend, event())

    scopes = (await backend.get("/memory/scopes")).json()

    assert scopes["data"] == {"scopes": [f"org:other/{NOTES}"]}


@pytest.mark.parametrize("scope", ["", "app", "app:x/", "app:tiny memory", "/".join(["app:x"] * 32), 7, None])
async def test_a_scope_must_be_1_to_31_segments(
    backend: httpx.AsyncClient, event: Event, scope: object
) -> None:
    body = event(scope=scope)

    assert failure(await append(backend, body)) == (400, "BAD_REQUEST")
    for route in ("recall", "forget", "answer"):
        answer = await backend.post(f"/memory/{route}", json={"scope": scope})
        assert failure(answer) == (400, "BAD_REQUEST")


@pytest.mark.parametrize("path", ["", "app", "app:x/", "/".join(["app:x"] * 32)])
async def test_listings_take_no_other_scopes_and_prefixes_either(
    backend: httpx.AsyncClient, path: str
) -> None:
    events = await backend.get("/memory/events", params={"scope": path})
    scopes = await backend.get("/memory/scopes", params={"prefix": path})

    assert failure(events) == failure(scopes) == (400, "BAD_REQUEST")


async def test_31_segments_are_served(backend: httpx.AsyncClient, event: Event) -> None:
    assert (await append(backend, event(scope="/".join(["app:x"] * 31)))).status_code == 202


async def test_the_health_probe_lists_a_prefix_nobody_writes(backend: httpx.AsyncClient) -> None:
    answer = await backend.get("/memory/scopes?prefix=tmh%3Aprobe&limit=1")

    assert answer.json() == {"success": True, "data": {"scopes": []}}


# Claims.


async def test_a_claimed_key_is_a_conflict_and_never_forwarded_whatever_the_body(
    hosted: CortexServer, backend: httpx.AsyncClient, event: Event
) -> None:
    await append(backend, event("one"), "claim-1")

    again = await append(backend, event("one"), "claim-1")
    other = await append(backend, event("two"), "claim-1")

    assert failure(again) == failure(other) == (400, "CONFLICT")
    assert [stored.text for stored in hosted.log.events(NOTES)] == ["one"]


async def test_a_conflict_is_relayed_as_409_when_told(
    hosted: CortexServer, backend: httpx.AsyncClient, event: Event
) -> None:
    hosted.knobs.conflict_status = 409
    await append(backend, event(), "claim-1")

    assert failure(await append(backend, event(), "claim-1")) == (409, "CONFLICT")


async def test_a_claim_is_kept_for_good(
    hosted: CortexServer, backend: httpx.AsyncClient, event: Event
) -> None:
    await append(backend, event(), "claim-1")
    hosted.clock.advance(10**8)

    assert failure(await append(backend, event(), "claim-1")) == (400, "CONFLICT")


@pytest.mark.parametrize("claim", ["", "a b", "x" * 129, "a.b", "é"])
async def test_a_claim_must_be_up_to_128_plain_characters(
    backend: httpx.AsyncClient, event: Event, claim: str
) -> None:
    headers = {b"Idempotency-Key": claim.encode()}

    answer = await backend.post("/memory/experience", json=event(), headers=headers)

    assert failure(answer) == (400, "VALIDATION_ERROR")


async def test_a_claim_is_taken_even_when_the_log_refuses(backend: httpx.AsyncClient, event: Event) -> None:
    refused = await append(backend, event(""), "claim-1")

    assert failure(refused) == (400, "BAD_REQUEST")
    assert failure(await append(backend, event("text"), "claim-1")) == (400, "CONFLICT")


async def test_a_bad_scope_or_a_rate_limit_takes_no_claim(
    hosted: CortexServer, backend: httpx.AsyncClient, event: Event
) -> None:
    hosted.knobs.rate_limit_writes = 1

    bad = await append(backend, event(scope="app"), "claim-1")
    limited = await append(backend, event(), "claim-1")
    through = await append(backend, event(), "claim-1")

    assert [answer.status_code for answer in (bad, limited, through)] == [400, 429, 202]
    assert hosted.seen.idempotency == [(None, "claim-1")]


async def test_answers_and_forgets_are_claimed_too(backend: httpx.AsyncClient) -> None:
    claim = {"Idempotency-Key": "claim-1"}
    forget = {"scope": NOTES, "selector": {"memory_ids": ["evt_1"]}}

    first = await backend.post("/memory/forget", json=forget, headers=claim)
    again = await backend.post("/memory/forget", json=forget, headers=claim)
    answer = await backend.post("/memory/answer", json={"scope": NOTES}, headers=claim)

    assert first.status_code == 200
    assert failure(again) == failure(answer) == (400, "CONFLICT")


async def test_a_body_key_conflict_is_relayed_as_a_conflict(backend: httpx.AsyncClient, event: Event) -> None:
    await append(backend, event("one", idempotency_key="k"))

    assert failure(await append(backend, event("two", idempotency_key="k"))) == (400, "CONFLICT")


# Relayed failures.


async def test_refusals_of_the_log_lose_their_codes(
    hosted: CortexServer, backend: httpx.AsyncClient, event: Event
) -> None:
    unknown_field = await append(backend, event(surprise=1))
    upper_case = await append(backend, event(scope="App:x"))
    no_pack = await backend.post(
        "/memory/answer", json={"scope": NOTES, "question": "q", "use_pack_id": "pack_9"}
    )
    hosted.knobs.recall_down = True
    down = await backend.post("/memory/recall", json={"scope": NOTES, "query": "q"})
    hosted.knobs.answer_down = True
    no_model = await backend.post("/memory/answer", json={"scope": NOTES})

    assert failure(unknown_field) == failure(upper_case) == (400, "BAD_REQUEST")
    assert failure(no_pack) == (404, "NOT_FOUND")
    assert failure(down) == (502, "UPSTREAM_UNAVAILABLE")
    assert failure(no_model) == (503, "UPSTREAM_UNAVAILABLE")


@pytest.mark.parametrize(
    ("engine", "relayed"),
    [
        (400, (400, "BAD_REQUEST")),
        (401, (502, "UPSTREAM_UNAVAILABLE")),
        (402, (402, "USER_INSUFFICIENT_CREDITS")),
        (403, (502, "UPSTREAM_UNAVAILABLE")),
        (404, (404, "NOT_FOUND")),
        (409, (400, "CONFLICT")),
        (413, (413, "PAYLOAD_TOO_LARGE")),
        (422, (400, "BAD_REQUEST")),
        (500, (502, "UPSTREAM_UNAVAILABLE")),
        (503, (503, "UPSTREAM_UNAVAILABLE")),
        (504, (502, "UPSTREAM_UNAVAILABLE")),
    ],
)
def test_each_failure_of_the_engine_has_its_relayed_form(engine: int, relayed: tuple[int, str]) -> None:
    knobs, clock = Knobs(), Clock()
    log = EventLog(clock, knobs, closed_types=False)
    wire = HostedWire(log, Packs(log, clock, knobs), knobs, Seen(), clock)

    answer = wire.failure(RefusalError(engine, "ENGINES_OWN", "its own words"))

    assert (answer.status, answer.body["errorCode"]) == relayed
    assert "its own words" not in str(answer.body)


async def test_what_everything_fails_with_is_not_relayed(
    hosted: CortexServer, backend: httpx.AsyncClient, event: Event
) -> None:
    hosted.knobs.fail_all = (503, "TEAPOT")

    assert failure(await append(backend, event())) == (503, "TEAPOT")


async def test_an_unregistered_scope_type_passes_the_hosted_wire(
    backend: httpx.AsyncClient, event: Event
) -> None:
    assert (await append(backend, event(scope="planet:mars"))).status_code == 202


async def test_a_rate_limit_is_answered_outside_the_envelope(
    hosted: CortexServer, backend: httpx.AsyncClient
) -> None:
    hosted.knobs.rate_limit_events = 1
    hosted.knobs.rate_limit_headers = {"RateLimit-Reset": 3}

    answer = await backend.get("/memory/events", params={"scope": NOTES})

    assert answer.status_code == 429
    assert answer.json() == {"error": {"message": "too many requests", "type": "rate_limit_error"}}
    assert answer.headers["RateLimit-Reset"] == "3"
    assert "Retry-After" not in answer.headers


# Routes.


async def test_a_repeated_labels_parameter_is_refused(backend: httpx.AsyncClient) -> None:
    answer = await backend.get("/memory/events", params={"scope": NOTES, "labels": ["a", "b"]})

    assert failure(answer) == (400, "VALIDATION_ERROR")


@pytest.mark.parametrize(
    "extra", [{"answer_instructions": None}, {"layers": ["events"]}, {"view": "granular"}]
)
async def test_an_answer_takes_no_unknown_key_and_no_null_instructions(
    backend: httpx.AsyncClient, extra: dict[str, Any]
) -> None:
    pack = (await backend.post("/memory/recall", json={"scope": NOTES, "query": ""})).json()["data"]
    body = {
        "scope": NOTES,
        "question": "which?",
        "use_pack_id": pack["pack_id"],
        "cite_sources": True,
        "include_context": True,
    }

    refused = await backend.post("/memory/answer", json={**body, **extra})
    plain = await backend.post("/memory/answer", json=body)
    more: dict[str, Any] = {
        "question_type": "q",
        "question_date": "d",
        "temporal": {},
        "filters": {},
        "answer_max_tokens": 9,
    }
    told = await backend.post("/memory/answer", json={**body, **more, "answer_instructions": "briefly"})

    assert failure(refused) == (400, "VALIDATION_ERROR")
    assert plain.json()["data"]["answer"] == told.json()["data"]["answer"] == "from the pack: which?"


@pytest.mark.parametrize(
    "route",
    [
        "POST /memory/experience/bulk",
        "POST /memory/beliefs/build",
        "GET /memory/beliefs",
        "GET /memory/version",
        "GET /v1/auth/whoami",
        "GET /v1/admin/health",
        "POST /v1/experience",
    ],
)
async def test_routes_of_the_direct_wire_are_not_there(backend: httpx.AsyncClient, route: str) -> None:
    answer = await backend.request(*route.split(), json={})

    assert (answer.status_code, answer.json()) == (404, {"message": "Not Found"})


async def test_writes_are_kept_behind_the_limiter_and_everything_else_even_when_refused(
    hosted: CortexServer, backend: httpx.AsyncClient, event: Event
) -> None:
    await append(backend, event("", idempotency_key="k"), "claim-1")
    for route in ("recall", "answer", "forget"):
        await backend.post(f"/memory/{route}", json={"route": route})
    await backend.post("/memory/v1/erasures", json={"route": "erasures"})

    seen = hosted.seen
    assert [body["idempotency_key"] for body in seen.writes] == ["k"]
    assert seen.idempotency == [("k", "claim-1")]
    kept = [seen.recalls, seen.answers, seen.forgets, seen.erasures]
    assert [[body["route"] for body in bodies] for bodies in kept] == [
        ["recall"],
        ["answer"],
        ["forget"],
        ["erasures"],
    ]


# Erasures.


async def test_the_whole_memory_is_erased_and_every_key_released(
    hosted: CortexServer, backend: httpx.AsyncClient, event: Event
) -> None:
    above = event(scope="app:tinymemory", idempotency_key="above")
    below = event(scope=NOTES, idempotency_key="below")
    hosted.log.append(above)
    hosted.log.append(below)

    answer = await backend.delete("/memory")

    assert answer.json() == {"success": True, "data": {"erased": True, "scopes": 2}}
    assert hosted.log.events(NOTES) == []
    assert (hosted.log.append(above).replayed, hosted.log.append(below).replayed) == (False, False)


async def test_one_scope_is_erased_and_the_answer_is_not_wrapped(
    hosted: CortexServer, backend: httpx.AsyncClient, event: Event
) -> None:
    hosted.log.append(event())

    answer = await backend.post("/memory/v1/erasures", json={"scope": "app:tinymemory", "audit_note": "bye"})

    assert answer.status_code == 200
    assert answer.json() == {
        "erased": True,
        "scope": "app:tinymemory",
        "scopes": 1,
        "erasure_ids": ["erasure_1"],
    }
    assert hosted.log.events(NOTES) == []


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        ({"scope": NOTES, "confirm_all": True}, (400, "UNKNOWN_FIELD")),
        ({}, (400, "INVALID_SCOPE")),
        ({"scope": 7}, (400, "INVALID_SCOPE")),
        ({"scope": ""}, (422, "ROOT_ERASURE_REFUSED")),
        ({"scope": "/"}, (422, "ROOT_ERASURE_REFUSED")),
        ({"scope": "app"}, (400, "BAD_REQUEST")),
    ],
)
async def test_an_erasure_takes_one_scope_and_never_the_root(
    backend: httpx.AsyncClient, body: dict[str, Any], refusal: tuple[int, str]
) -> None:
    assert failure(await backend.post("/memory/v1/erasures", json=body)) == refusal


async def test_erasure_routes_can_be_incomplete_or_missing(
    hosted: CortexServer, backend: httpx.AsyncClient
) -> None:
    hosted.knobs.erasure_incomplete_for = 2
    incomplete = [
        await backend.delete("/memory"),
        await backend.post("/memory/v1/erasures", json={"scope": NOTES}),
    ]
    hosted.knobs.erase_all_missing = hosted.knobs.scoped_erase_missing = True
    missing = [
        await backend.delete("/memory"),
        await backend.post("/memory/v1/erasures", json={"scope": NOTES}),
    ]

    assert [failure(answer) for answer in incomplete] == [(502, "ERASURE_INCOMPLETE")] * 2
    assert [answer.json() for answer in missing] == [{"message": "Not Found"}] * 2
