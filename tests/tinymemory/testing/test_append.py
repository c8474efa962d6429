"""What the log does with an append, and in which order it refuses one."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tinymemory.testing import CortexServer

Event = Callable[..., dict[str, Any]]
NOTES = "app:tinymemory/app:learnings"
DAY = 24 * 3600.0
SCOPE_TYPES = {"org", "dept", "team", "app", "user", "agent"} | {
    "service",
    "ws",
    "project",
    "global",
    "system",
    "source",
}


async def append(cortex: httpx.AsyncClient, body: dict[str, Any]) -> tuple[int, Any]:
    answer = await cortex.post("/v1/experience?wait=indexed", json=body)
    return answer.status_code, answer.json()


async def code_of(cortex: httpx.AsyncClient, body: dict[str, Any]) -> tuple[int, str]:
    status, answer = await append(cortex, body)
    return status, answer["error_code"]


async def test_an_event_is_captured_under_the_next_id(cortex: httpx.AsyncClient, event: Event) -> None:
    first = await append(cortex, event("one"))
    second = await append(cortex, event("two"))

    assert first == (202, {"event_id": "evt_1", "status": "captured", "replayed_from_idempotency": False})
    assert second[1]["event_id"] == "evt_2"


@pytest.mark.parametrize(
    "changes",
    [
        {"surprise": 1},
        {"content": {"kind": "message", "role": "user", "text": "x", "mood": "good"}},
        {"context": {"labels": [], "place": "here"}},
        {"directives": {"extract": [], "keep": True}},
        {"content": {"kind": "message", "role": "user", "text": 7}},
        {"context": {"labels": "a,b"}},
        {"context": {"observed_at": "yesterday"}},
        {"context": {"observed_at": "2026-01-02T03:04:05"}},
        {"context": {"observed_at": 1767322800}},
        {"scope": 7},
        {"content": None},
    ],
)
async def test_the_schema_is_closed(cortex: httpx.AsyncClient, event: Event, changes: dict[str, Any]) -> None:
    assert await code_of(cortex, {**event(), **changes}) == (422, "INVALID_BODY")


async def test_fields_the_real_schema_knows_pass(cortex: httpx.AsyncClient, event: Event) -> None:
    body = event(observed_actor={"id": "a"}, subject="ann", hints={"x": 1}, directives={"extract": []})

    assert (await append(cortex, body))[0] == 202


async def test_a_key_over_64_bytes_is_an_invalid_body(cortex: httpx.AsyncClient, event: Event) -> None:
    assert (await append(cortex, event(idempotency_key="k" * 64)))[0] == 202
    assert await code_of(cortex, event(idempotency_key="é" * 33)) == (422, "INVALID_BODY")


@pytest.mark.parametrize(
    "scope",
    [
        "",
        "app",
        "app:",
        ":x",
        "App:x",
        "1app:x",
        "app:tiny memory",
        "app:x/",
        "/app:x",
        "app:x//app:y",
        "app:é",
        "a" * 33 + ":x",
        "app:" + "x" * 129,
        "/".join(["app:x"] * 33),
        "/".join(["app:" + "x" * 125] * 32),
    ],
)
async def test_a_scope_outside_the_grammar_is_invalid(
    cortex: httpx.AsyncClient, event: Event, scope: str
) -> None:
    assert await code_of(cortex, event(scope=scope)) == (422, "INVALID_SCOPE")


async def test_a_scope_of_32_segments_is_valid(cortex: httpx.AsyncClient, event: Event) -> None:
    assert (await append(cortex, event(scope="/".join(["app:x"] * 32))))[0] == 202


async def test_a_scope_type_nobody_registered_is_refused(cortex: httpx.AsyncClient, event: Event) -> None:
    assert await code_of(cortex, event(scope="app:x/planet:mars")) == (422, "UNREGISTERED_SCOPE_TYPE")
    for known in [
        "org",
        "dept",
        "team",
        "app",
        "user",
        "agent",
        "service",
        "ws",
        "project",
        "global",
        "system",
        "source",
    ]:
        assert (await append(cortex, event(scope=f"{known}:x")))[0] == 202


async def test_more_than_64_labels_or_a_label_over_256_bytes_is_an_invalid_body(
    cortex: httpx.AsyncClient, event: Event
) -> None:
    assert (await append(cortex, event(labels=["é" * 128] * 64)))[0] == 202
    assert await code_of(cortex, event(labels=["a"] * 65)) == (422, "INVALID_BODY")
    assert await code_of(cortex, event(labels=["é" * 128 + "x"])) == (422, "INVALID_BODY")


async def test_an_empty_text_is_an_invalid_envelope(cortex: httpx.AsyncClient, event: Event) -> None:
    assert await code_of(cortex, event("")) == (422, "INVALID_ENVELOPE")


async def test_a_text_is_measured_in_bytes_with_its_role_in_front(
    cortex: httpx.AsyncClient, event: Event
) -> None:
    room = 1_048_576 - len("[user] ")

    assert (await append(cortex, event("é" * (room // 2))))[0] == 202
    assert await code_of(cortex, event("é" * (room // 2) + "xx")) == (422, "INVALID_ENVELOPE")
    assert await code_of(cortex, event("x" * room, role="assistant")) == (422, "INVALID_ENVELOPE")


async def test_refusals_come_in_order_schema_scope_type_labels_key_text(
    cortex: httpx.AsyncClient, event: Event
) -> None:
    await append(cortex, event("known", idempotency_key="k"))
    wrong = event("", scope="planet:mars mars", labels=["a"] * 65, idempotency_key="k" * 65)

    assert await code_of(cortex, wrong) == (422, "INVALID_BODY")
    wrong["idempotency_key"] = "k"
    assert await code_of(cortex, wrong) == (422, "INVALID_SCOPE")
    wrong["scope"] = "planet:mars"
    assert await code_of(cortex, wrong) == (422, "UNREGISTERED_SCOPE_TYPE")
    wrong["scope"] = NOTES
    assert await code_of(cortex, wrong) == (422, "INVALID_BODY")
    wrong["context"]["labels"] = []
    assert await code_of(cortex, wrong) == (409, "IDEMPOTENCY_CONFLICT")
    wrong["idempotency_key"] = "new"
    assert await code_of(cortex, wrong) == (422, "INVALID_ENVELOPE")


async def test_a_known_key_with_the_same_body_is_a_replay_of_the_first_id(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event
) -> None:
    body = event(idempotency_key="k")

    await append(cortex, body)
    again = await append(cortex, dict(reversed(body.items())))

    assert again == (202, {"event_id": "evt_1", "status": "captured", "replayed_from_idempotency": True})
    assert len(direct.log.events(NOTES)) == 1


async def test_when_it_was_observed_does_not_make_another_body(
    cortex: httpx.AsyncClient, event: Event
) -> None:
    await append(cortex, event(idempotency_key="k"))

    again = await append(
        cortex, event(idempotency_key="k", context={"observed_at": "2026-01-02T03:04:05+00:00"})
    )

    assert again[1]["replayed_from_idempotency"] is True


@pytest.mark.parametrize(
    "other", [{"text": "other"}, {"labels": ["a"]}, {"scope": "app:x"}, {"directives": {"extract": []}}]
)
async def test_a_known_key_with_another_body_is_a_conflict(
    cortex: httpx.AsyncClient, event: Event, other: dict[str, Any]
) -> None:
    await append(cortex, event(idempotency_key="k"))

    assert await code_of(cortex, event(idempotency_key="k", **other)) == (409, "IDEMPOTENCY_CONFLICT")


async def test_a_key_is_forgotten_after_24_hours(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event
) -> None:
    body = event(idempotency_key="k")
    await append(cortex, body)

    direct.clock.advance(DAY - 1)
    before = await append(cortex, body)
    direct.clock.advance(1)
    after = await append(cortex, body)

    assert before[1]["replayed_from_idempotency"] is True
    assert after[1] == {"event_id": "evt_2", "status": "captured", "replayed_from_idempotency": False}


async def test_without_a_key_nothing_is_ever_a_replay(cortex: httpx.AsyncClient, event: Event) -> None:
    await append(cortex, event())

    assert (await append(cortex, event()))[1]["replayed_from_idempotency"] is False


async def test_an_event_is_stamped_by_the_servers_clock(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event
) -> None:
    await append(cortex, event())
    direct.clock.advance(3661.5)
    await append(cortex, event())

    recorded = [stored.recorded_at.isoformat() for stored in direct.log.events(NOTES)]

    assert recorded == ["2026-09-02T00:00:00+00:00", "2026-09-02T01:01:01.500000+00:00"]


async def test_a_bulk_is_applied_in_order(cortex: httpx.AsyncClient, event: Event) -> None:
    answer = await cortex.post(
        "/v1/experience/bulk?wait=indexed",
        json={
            "items": [event("one", idempotency_key="k"), event("two"), event("one", idempotency_key="k")],
            "ordering": "strict_temporal",
        },
    )

    assert answer.status_code == 200
    assert answer.json() == {
        "accepted": 3,
        "results": [
            {"index": 0, "event_id": "evt_1", "replayed_from_idempotency": False},
            {"index": 1, "event_id": "evt_2", "replayed_from_idempotency": False},
            {"index": 2, "event_id": "evt_1", "replayed_from_idempotency": True},
        ],
    }


async def test_a_bulk_stops_at_the_first_failing_item_and_keeps_what_came_before(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event
) -> None:
    answer = await cortex.post(
        "/v1/experience/bulk", json={"items": [event("one"), event(""), event("three")]}
    )

    assert (answer.status_code, answer.json()["error_code"]) == (422, "INVALID_ENVELOPE")
    assert [stored.text for stored in direct.log.events(NOTES)] == ["one"]


@pytest.mark.parametrize("body", [{}, {"items": 7}, {"items": [7]}, {"items": [], "more": 1}])
async def test_a_bulk_without_a_list_of_events_is_an_invalid_body(
    cortex: httpx.AsyncClient, body: dict[str, Any]
) -> None:
    answer = await cortex.post("/v1/experience/bulk", json=body)

    assert (answer.status_code, answer.json()["error_code"]) == (422, "INVALID_BODY")


async def test_a_bulk_over_1000_is_refused_whole(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event
) -> None:
    answer = await cortex.post("/v1/experience/bulk", json={"items": [event()] * 1001})

    assert (answer.status_code, answer.json()["error_code"]) == (422, "INVALID_BODY")
    assert direct.log.events(NOTES) == []
