"""What a forget removes, and what it insists on."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tinymemory.testing import CortexServer

Event = Callable[..., dict[str, Any]]
NOTES = "app:tinymemory/app:learnings"


async def forget(cortex: httpx.AsyncClient, **body: Any) -> tuple[int, Any]:
    answer = await cortex.post("/v1/forget", json={"scope": NOTES, **body})
    return answer.status_code, answer.json()


async def code_of(cortex: httpx.AsyncClient, **body: Any) -> tuple[int, str]:
    status, answer = await forget(cortex, **body)
    return status, answer["error_code"]


def ids(*named: str) -> dict[str, Any]:
    return {"memory_ids": list(named)}


def texts(server: CortexServer, scope: str = NOTES) -> list[str]:
    return [stored.text for stored in server.log.events(scope)]


async def pack_of(cortex: httpx.AsyncClient, scope: str = NOTES) -> str:
    answer = await cortex.post("/v1/recall", json={"scope": scope, "query": "", "view": "granular"})
    return answer.json()["pack_id"]


async def answered(cortex: httpx.AsyncClient, pack: str, scope: str = NOTES) -> int:
    body = {"scope": scope, "question": "what?", "use_pack_id": pack}
    return (await cortex.post("/v1/answer", json=body)).status_code


async def test_an_unknown_field_is_an_invalid_body(cortex: httpx.AsyncClient) -> None:
    assert await code_of(cortex, selectors=ids("evt_1")) == (422, "INVALID_BODY")


async def test_a_cascade_must_be_a_known_one(cortex: httpx.AsyncClient) -> None:
    assert await code_of(cortex, selector=ids("evt_1"), cascade="all") == (400, "INVALID_CASCADE")


async def test_ids_and_confirm_all_exclude_each_other(cortex: httpx.AsyncClient) -> None:
    refused = await code_of(cortex, selector=ids("evt_1"), confirm_all=True)

    assert refused == (400, "AMBIGUOUS_SELECTOR_CONFIRM_ALL")


@pytest.mark.parametrize(
    "body", [{}, {"selector": {}}, {"selector": {"memory_ids": []}}, {"selector": {"ids": ["evt_1"]}}]
)
async def test_an_empty_or_misspelt_selector_needs_a_confirmation(
    cortex: httpx.AsyncClient, body: dict[str, Any]
) -> None:
    assert await code_of(cortex, **body) == (422, "EMPTY_SELECTOR_WITHOUT_CONFIRMATION")


async def test_more_than_100_ids_are_an_invalid_body(cortex: httpx.AsyncClient) -> None:
    many = [f"evt_{number}" for number in range(101)]

    assert (await forget(cortex, selector=ids(*many[:100])))[0] == 200
    assert await code_of(cortex, selector=ids(*many)) == (422, "INVALID_BODY")


async def test_redacting_removes_the_named_events_of_this_scope_only(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event
) -> None:
    direct.log.append(event("here"))
    direct.log.append(event("there", scope="app:other"))

    status, answer = await forget(
        cortex,
        layers=["events"],
        selector=ids("evt_1", "evt_2", "evt_9"),
        cascade="redact_events",
        audit_note="tinymemory: forget",
    )

    assert status == 200
    assert answer == {
        "deleted": {"events": 1, "beliefs": 0},
        "requested": 3,
        "matched": 1,
        "audit_id": "audit_1",
    }
    assert texts(direct) == []
    assert texts(direct, "app:other") == ["there"]


async def test_redacting_takes_the_beliefs_and_releases_the_key(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event
) -> None:
    body = event(idempotency_key="k")
    direct.log.append(body)
    direct.log.build(NOTES)

    _, answer = await forget(cortex, selector=ids("evt_1"), cascade="redact_events")

    assert answer["deleted"] == {"events": 1, "beliefs": 1}
    assert direct.log.beliefs(NOTES) == []
    assert direct.log.append(body).replayed is False


@pytest.mark.parametrize("cascade", [{}, {"cascade": "derived_only"}])
async def test_the_default_cascade_takes_beliefs_and_keeps_events(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event, cascade: dict[str, str]
) -> None:
    direct.log.append(event("kept"))
    direct.log.build(NOTES)

    _, answer = await forget(cortex, selector=ids("evt_1"), **cascade)

    assert answer["deleted"] == {"events": 0, "beliefs": 1}
    assert texts(direct) == ["kept"]
    assert direct.log.beliefs(NOTES) == []


async def test_the_cascade_none_deletes_nothing(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event
) -> None:
    direct.log.append(event("kept"))
    direct.log.build(NOTES)

    _, answer = await forget(cortex, selector=ids("evt_1"), cascade="none")

    assert answer["deleted"] == {"events": 0, "beliefs": 0}
    assert answer["matched"] == 1
    assert len(direct.log.beliefs(NOTES)) == 1


async def test_confirm_all_removes_the_scope_and_keeps_the_keys(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event
) -> None:
    body = event(idempotency_key="k")
    direct.log.append(body)
    direct.log.append(event("below", scope=NOTES + "/agent:a"))
    direct.log.build(NOTES)

    status, answer = await forget(cortex, confirm_all=True)

    assert status == 200
    assert answer["deleted"] == {"events": 1, "beliefs": 1}
    assert (texts(direct), direct.log.beliefs(NOTES)) == ([], [])
    assert texts(direct, NOTES + "/agent:a") == ["below"]
    assert direct.log.append(body).replayed is True


async def test_removing_an_event_drops_every_pack_of_every_scope(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event
) -> None:
    direct.log.append(event())
    pack = await pack_of(cortex, "app:other")

    await forget(cortex, selector=ids("evt_1"), cascade="redact_events")

    assert await answered(cortex, pack, "app:other") == 404


async def test_a_forget_that_removes_no_event_keeps_the_packs(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event
) -> None:
    direct.log.append(event())
    pack = await pack_of(cortex)

    await forget(cortex, selector=ids("evt_1"), cascade="derived_only")
    await forget(cortex, selector=ids("evt_9"), cascade="redact_events")

    assert await answered(cortex, pack) == 200


async def test_losing_the_last_event_is_as_if_it_had_never_been_written(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event
) -> None:
    body = event("two", idempotency_key="k")
    direct.log.append(event("one"))
    direct.log.append(body)
    pack = (await cortex.post("/v1/recall", json={"scope": NOTES, "query": ""})).json()["pack_id"]

    direct.log.lose_last(NOTES)

    assert texts(direct) == ["one"]
    asked = {"scope": NOTES, "question": "which?", "use_pack_id": pack}
    assert (await cortex.post("/v1/answer", json=asked)).status_code == 200  # it drops no pack
    assert direct.log.append(body).replayed is False
