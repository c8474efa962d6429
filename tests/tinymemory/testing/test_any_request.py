"""Whatever is asked, the servers answer: a refusal with its code, never a broken connection."""

import copy
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tinymemory.testing import CortexServer

Json = dict[str, Any]
HEADERS = {"Authorization": "Bearer key"}
NOTES = "app:tinymemory/app:learnings"
BASE = {"direct": "/v1/", "hosted": "/memory/"}
GETS = {"direct": ["events", "scopes/list", "beliefs", "erasures/x"], "hosted": ["events", "scopes"]}
EVENT: Json = {
    "scope": NOTES,
    "modality": "observation",
    "content": {"kind": "message", "role": "user", "text": "night trains"},
    "context": {"labels": ["a"], "observed_at": "2026-01-02T03:04:05+00:00"},
    "directives": {"extract": []},
}
VALID: dict[str, Json] = {
    "experience": EVENT,
    "experience/bulk": {"items": [EVENT], "ordering": "strict_temporal"},
    "recall": {
        "scope": NOTES,
        "query": "night",
        "view": "granular",
        "include": ["events", "facts", "beliefs"],
        "budgets": {"max_tokens": 100, "per_layer_limits": {"events": 3, "facts": 1}},
        "filters": {"metadata": {"labels": ["a"]}},
        "temporal": {"refers_during": {"from": "2026-01-02", "to": "2026-01-02"}, "timezone": "UTC"},
    },
    "answer": {"scope": NOTES, "question": "when?", "use_pack_id": "pack_1", "cite_sources": True},
    "forget": {
        "scope": NOTES,
        "layers": ["events"],
        "selector": {"memory_ids": ["evt_9"]},
        "cascade": "redact_events",
        "confirm_all": False,
    },
    "beliefs/build": {"scope": NOTES},
    "erasures": {"scope": NOTES, "confirm_all": True, "audit_note": "bye"},
    "v1/erasures": {"scope": NOTES, "audit_note": "bye"},
}

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
words = st.sampled_from(["app:x", "events", "2026-01-02", "0001-01-01T00:00:00+23:59", "Europe/Vienna", ""])
texts = words | st.text(max_size=10)
values = st.recursive(
    scalars | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def spoilt(draw: st.DrawFn) -> tuple[str, Json]:
    """A route and its valid body, one part of which is anything."""
    route = draw(st.sampled_from(sorted(VALID)))
    body = copy.deepcopy(VALID[route])
    part: Any = body
    while isinstance(part, dict | list):
        places: list[Any] = list(part) if isinstance(part, dict) else list(range(len(part)))  # pyright: ignore[reportUnknownArgumentType]
        place = draw(st.sampled_from(places))
        if draw(st.booleans()) or not isinstance(part[place], dict | list) or not part[place]:
            part[place] = draw(values)
            break
        part = part[place]  # pyright: ignore[reportUnknownVariableType]
    return route, body


quietly = settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(headers=HEADERS) as http:
        yield http


@pytest.fixture(params=["direct", "hosted"])
def server(request: pytest.FixtureRequest, direct: CortexServer, hosted: CortexServer) -> CortexServer:
    return direct if request.param == "direct" else hosted


def ensure_answered(answer: httpx.Response) -> None:
    """An answer in the wire's own form: a JSON object, and no failure of the server's."""
    assert answer.status_code < 500, answer.text
    body: Json = answer.json()
    if not answer.is_success and body != {"message": "Not Found"}:
        assert body.get("error_code") or body.get("errorCode")


@quietly
@given(request=spoilt())
async def test_a_body_with_anything_in_it_is_answered_on_every_route(
    server: CortexServer, http: httpx.AsyncClient, request: tuple[str, Json]
) -> None:
    route, body = request

    ensure_answered(await http.post(server.url + BASE[server.wire] + route, json=body))


async def test_a_number_too_large_to_count_with_is_answered(
    server: CortexServer, http: httpx.AsyncClient
) -> None:
    url = server.url + BASE[server.wire]
    await http.post(url + "experience", json=EVENT)
    limits = dict.fromkeys(("events", "facts", "beliefs"), 10**400)
    body = VALID["recall"] | {"budgets": {"max_tokens": 10**400, "per_layer_limits": limits}}
    ensure_answered(await http.post(url + "recall", json=body))

    for digits in ("9" * 400, "9" * 5000):
        for route in GETS[server.wire]:
            query = {"scope": NOTES, "prefix": "app:x", "limit": digits, "cursor": digits}
            ensure_answered(await http.get(url + route, params=query))


@quietly
@given(content=st.binary(max_size=40))
async def test_any_bytes_are_answered(server: CortexServer, http: httpx.AsyncClient, content: bytes) -> None:
    ensure_answered(await http.post(server.url + BASE[server.wire] + "experience", content=content))


@quietly
@given(query=st.dictionaries(st.sampled_from(["scope", "labels", "limit", "cursor", "prefix"]), texts))
async def test_any_parameters_are_answered(
    server: CortexServer, http: httpx.AsyncClient, query: dict[str, str]
) -> None:
    for route in GETS[server.wire]:
        ensure_answered(await http.get(server.url + BASE[server.wire] + route, params=query))
