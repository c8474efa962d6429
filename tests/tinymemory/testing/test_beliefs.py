"""Facts come after a delay, beliefs are built of facts, and a build says what it found."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tinymemory.testing import CortexServer, cortex_server

Event = Callable[..., dict[str, Any]]
NOTES = "app:tinymemory/app:learnings"


async def build(cortex: httpx.AsyncClient, scope: str = NOTES) -> dict[str, Any]:
    answer = await cortex.post("/v1/beliefs/build", json={"scope": scope})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def listed(cortex: httpx.AsyncClient, **params: str) -> dict[str, Any]:
    return (await cortex.get("/v1/beliefs", params={"scope": NOTES, **params})).json()


async def test_a_build_straight_after_a_write_builds_nothing_and_says_what_is_pending(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event
) -> None:
    direct.knobs.extraction_delay = 180
    for text in ("one", "two", "three"):
        direct.log.append(event(text))

    assert await build(cortex) == {
        "built": 0,
        "items": [],
        "facts_scanned": 0,
        "events_scanned": 3,
        "groups_considered": 0,
        "groups_rejected": 0,
        "belief_events_found": 0,
        "reasons": {"facts_pending_extraction": 3},
    }


async def test_after_the_delay_the_same_build_builds_and_a_second_one_says_belief_exists(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event
) -> None:
    direct.knobs.extraction_delay = 180
    direct.log.append(event("one"))
    direct.clock.advance(100)
    direct.log.append(event("two"))
    assert (direct.log.pending(NOTES), direct.log.extracted(NOTES)) == (2, 0)

    direct.clock.advance(80)
    first = await build(cortex)
    second = await build(cortex)

    assert (direct.log.pending(NOTES), direct.log.extracted(NOTES)) == (1, 1)
    assert first["built"] == first["groups_considered"] == first["facts_scanned"] == 1
    assert first["reasons"] == {"facts_pending_extraction": 1}
    assert second["built"] == second["groups_considered"] == 0
    assert second["reasons"] == {"facts_pending_extraction": 1, "belief_exists": 1}


async def test_a_belief_says_what_its_event_said(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event
) -> None:
    direct.log.append(event("window seats", context={"observed_at": "2026-01-02T03:04:05+00:00"}))
    direct.log.append(event("undated"))

    built = (await build(cortex))["items"]

    assert built[0] == {
        "id": "belief_evt_1",
        "source": "evt_1",
        "scope": NOTES,
        "stance": "supported",
        "confidence": 0.9,
        "claim": {
            "subject": {"type": "entity", "id": "ent_user", "name": "user"},
            "predicate": "said",
            "object": {"type": "literal", "datatype": "string", "value": "window seats"},
        },
        "valid_from": "2026-01-02T03:04:05+00:00",
    }
    assert built[1]["valid_from"] == "2026-09-02T00:00:00+00:00"


async def test_a_belief_of_a_v2_event_says_the_envelopes_text(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event
) -> None:
    direct.log.append(event(json.dumps({"v": 2, "text": "window seats"})))
    direct.log.append(event('{"v": 3, "text": "no envelope of its own"}'))
    direct.log.append(event("{not json"))

    said = [belief["claim"]["object"]["value"] for belief in (await build(cortex))["items"]]

    assert said == ["window seats", '{"v": 3, "text": "no envelope of its own"}', "{not json"]


async def test_a_belief_of_a_text_that_only_looks_like_an_envelope_says_all_of_it(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event
) -> None:
    looks_alike = [
        '{"v":2}',
        '{"v":2,"text":7}',
        '{"v":3,"text":"x"}',
        '{"a":' * 5000,
        "{}",
        '{"v":2,"text":"x"',
    ]
    for text in looks_alike:
        direct.log.append(event(text))

    answer = (await cortex.post("/v1/beliefs/build", json={"scope": NOTES})).json()

    assert [belief["claim"]["object"]["value"] for belief in answer["items"]] == looks_alike


async def test_an_event_that_asks_for_no_extraction_never_yields_a_fact(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event
) -> None:
    direct.log.append(event(directives={"extract": []}))
    direct.clock.advance(10**9)

    assert (await build(cortex))["reasons"] == {"extraction_disabled": 1}
    assert (direct.log.pending(NOTES), direct.log.extracted(NOTES)) == (0, 0)


async def test_a_build_reads_exactly_its_scope(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event
) -> None:
    direct.log.append(event(scope=NOTES + "/agent:a"))

    assert (await build(cortex))["reasons"] == {"scope_empty": 1}


@pytest.mark.parametrize("body", [{}, {"scope": ""}, {"scope": 7}])
async def test_a_build_needs_a_scope(cortex: httpx.AsyncClient, body: dict[str, Any]) -> None:
    answer = await cortex.post("/v1/beliefs/build", json=body)

    assert (answer.status_code, answer.json()["error_code"]) == (422, "INVALID_BODY")


async def test_facts_go_with_their_event(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event
) -> None:
    direct.log.append(event("one"))
    direct.log.append(event("two"))
    await cortex.post(
        "/v1/forget",
        json={"scope": NOTES, "selector": {"memory_ids": ["evt_1"]}, "cascade": "redact_events"},
    )

    assert [belief["source"] for belief in (await build(cortex))["items"]] == ["evt_2"]


async def test_beliefs_list_newest_first_up_to_the_limit(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event
) -> None:
    for text in ("one", "two", "three"):
        direct.log.append(event(text))
    await build(cortex)

    two = await listed(cortex, limit="2")
    all_ = await listed(cortex)

    assert ([belief["source"] for belief in two["items"]], two["has_more"]) == (["evt_3", "evt_2"], True)
    assert (len(all_["items"]), all_["has_more"]) == (3, False)


async def test_a_test_can_put_beliefs_of_its_own(direct: CortexServer, cortex: httpx.AsyncClient) -> None:
    direct.log.add_belief({"id": "b", "scope": NOTES, "claim": None})

    assert (await listed(cortex))["items"] == [{"id": "b", "scope": NOTES, "claim": None}]


async def test_the_hosted_server_builds_by_itself_the_moment_a_fact_is_there(
    hosted: CortexServer, event: Event
) -> None:
    hosted.knobs.extraction_delay = 60
    hosted.log.append(event())

    before = hosted.log.beliefs(NOTES)
    hosted.clock.advance(60)
    after = hosted.log.beliefs(NOTES)

    assert before == []
    assert [belief["id"] for belief in after] == ["belief_evt_1"]


async def test_a_belief_is_not_built_of_an_event_forgotten_before_its_fact_was_there(
    hosted: CortexServer, event: Event
) -> None:
    hosted.knobs.extraction_delay = 60
    hosted.log.append(event("one"))
    hosted.log.append(event("two"))

    hosted.log.lose_last(NOTES)
    hosted.clock.advance(60)

    assert [belief["source"] for belief in hosted.log.beliefs(NOTES)] == ["evt_1"]


async def test_building_by_itself_can_be_turned_on_and_off(event: Event) -> None:
    async with cortex_server("direct", clock="manual", auto_build=True) as server:
        server.log.append(event())
        assert len(server.log.beliefs(NOTES)) == 1
    async with cortex_server("hosted", clock="manual", auto_build=False) as server:
        server.log.append(event())
        assert server.log.beliefs(NOTES) == []
        assert server.log.build(NOTES)["built"] == 1
