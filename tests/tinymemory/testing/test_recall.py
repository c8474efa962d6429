"""How packs are ranked, filtered and cut, and when they can be answered from."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tinymemory.testing import CortexServer

Event = Callable[..., dict[str, Any]]
NOTES = "app:tinymemory/app:learnings"


async def refused(cortex: httpx.AsyncClient, **body: Any) -> tuple[int, str]:
    answer = await cortex.post("/v1/recall", json={"scope": NOTES, "query": "q", **body})
    return answer.status_code, answer.json()["error_code"]


async def recall(cortex: httpx.AsyncClient, query: str = "", **body: Any) -> dict[str, Any]:
    granular = {"scope": NOTES, "query": query, "view": "granular", "include": ["events"], **body}
    answer = await cortex.post("/v1/recall", json=granular)
    assert answer.status_code == 200, answer.text
    return answer.json()


def texts(pack: dict[str, Any]) -> list[str]:
    return [shown["content"]["text"] for shown in pack["layers"]["events"]]


def room(tokens: int, **limits: int) -> dict[str, Any]:
    return {"max_tokens": tokens, "per_layer_limits": limits}


# Which events.


@pytest.mark.parametrize(
    ("view", "seen"),
    [
        ({"view": "granular"}, ["node"]),
        ({"view": "descend"}, ["below", "node"]),
        ({"view": "holistic"}, ["below", "node", "above"]),
        ({}, ["below", "node", "above"]),
    ],
)
async def test_a_view_says_how_far_a_recall_reads(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event, view: dict[str, str], seen: list[str]
) -> None:
    direct.log.append(event("above", scope="team:a"))
    direct.log.append(event("node", scope="team:a/user:ann"))
    direct.log.append(event("sibling", scope="team:a/user:anna"))
    direct.log.append(event("below", scope="team:a/user:ann/app:x"))

    answer = await cortex.post(
        "/v1/recall", json={"scope": "team:a/user:ann", "query": "", "include": ["events"], **view}
    )

    assert texts(answer.json()) == seen


@pytest.mark.parametrize(
    "body",
    [
        {"view": "raw"},
        {"limit": 3},
        {"temporal": {"during": {}}},
        {"temporal": {"refers_during": {"from": "2026-01-01", "to": "2026-01-02", "or": 1}}},
        {"filters": {"tags": []}},
        {"filters": {"metadata": {"tags": []}}},
        {"budgets": {"max_tokens": "many"}},
        {"include": "events"},
        {"query": None},
        {"scope": None},
    ],
)
async def test_the_recall_schema_is_closed(cortex: httpx.AsyncClient, body: dict[str, Any]) -> None:
    assert await refused(cortex, **body) == (422, "INVALID_BODY")


async def test_an_event_ranks_by_the_distinct_words_it_holds_then_newest_first(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event
) -> None:
    for text in ("a window", "window seats at night", "night trains", "nothing here", "another window"):
        direct.log.append(event(text))

    assert texts(await recall(cortex, "Window, (night) window?")) == [
        "window seats at night",
        "another window",
        "night trains",
        "a window",
    ]


async def test_words_under_three_characters_do_not_count_and_no_words_match_everything(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event
) -> None:
    for text in ("go by tram", "fly"):
        direct.log.append(event(text))

    assert texts(await recall(cortex, "go by fly")) == ["fly"]
    assert texts(await recall(cortex, "go, by!")) == ["fly", "go by tram"]


async def test_labels_filter_any_of(direct: CortexServer, cortex: httpx.AsyncClient, event: Event) -> None:
    for labels in (["a"], ["b"], ["c"]):
        direct.log.append(event(labels[0], labels=labels))

    pack = await recall(cortex, filters={"metadata": {"labels": ["a", "c"]}})

    assert texts(pack) == ["c", "a"]


async def test_hinted_days_come_first_in_the_zone_named_and_nothing_is_dropped(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event
) -> None:
    observed = {"observed_at": "2026-01-01T20:00:00+00:00"}  # already the second in Kolkata
    direct.log.append(event("new year", context=observed))
    direct.log.append(event("undated"))
    days = {"refers_during": {"from": "2026-01-02", "to": "2026-01-02"}}

    in_utc = await recall(cortex, temporal=days)
    in_kolkata = await recall(cortex, temporal={**days, "timezone": "Asia/Kolkata"})

    assert texts(in_utc) == ["undated", "new year"]
    assert texts(in_kolkata) == ["new year", "undated"]


async def test_an_undated_event_counts_as_observed_when_it_was_recorded(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event
) -> None:
    direct.log.append(event("undated"))
    direct.log.append(event("old", context={"observed_at": "2020-01-01T00:00:00Z"}))
    today = {"refers_during": {"from": "2026-09-02", "to": "2026-09-02"}}

    assert texts(await recall(cortex, temporal=today)) == ["undated", "old"]


async def test_an_event_at_the_end_of_time_is_on_no_hinted_day(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event
) -> None:
    direct.log.append(event("late", context={"observed_at": "9999-12-31T23:00:00Z"}))
    days = {"refers_during": {"from": "2026-01-02", "to": "2026-01-02"}, "timezone": "Asia/Kolkata"}

    assert texts(await recall(cortex, temporal=days)) == ["late"]


@pytest.mark.parametrize(
    "temporal",
    [
        {"refers_during": {"from": "2026-01-02", "to": "2026-01-01"}},
        {"refers_during": {"from": "2026-01-01", "to": "2026-01-02"}, "timezone": "Mars/Olympus"},
        {"refers_during": {"from": "2026-01-01", "to": "2026-01-02"}, "timezone": ""},
        {"refers_during": {"from": "2026-01-01", "to": "2026-01-02"}, "timezone": "../etc/passwd"},
        {"refers_during": {"from": "soon", "to": "later"}},
    ],
)
async def test_backward_days_and_unknown_zones_are_refused(
    cortex: httpx.AsyncClient, temporal: dict[str, Any]
) -> None:
    assert await refused(cortex, temporal=temporal) == (422, "INVALID_BODY")


# How much of them.


async def test_events_are_not_among_the_layers_unless_asked_for(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event
) -> None:
    direct.log.append(event())

    answer = await cortex.post("/v1/recall", json={"scope": NOTES, "query": ""})

    assert answer.json()["layers"] == {"facts": [], "beliefs": [], "episodes": []}


async def test_a_layer_holds_20_events_and_nothing_else_unless_told(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event
) -> None:
    for number in range(25):
        direct.log.append(event(f"note {number}"))
    direct.log.build(NOTES)
    layers = ["events", "facts", "beliefs"]

    plain = await recall(cortex, include=layers)
    told = await recall(cortex, include=layers, budgets=room(4000, events=1, facts=2, beliefs=3))

    assert [len(plain["layers"][layer]) for layer in layers] == [20, 0, 0]
    assert [len(told["layers"][layer]) for layer in layers] == [1, 2, 3]


async def test_an_event_costs_a_third_of_its_bytes_and_the_first_that_does_not_fit_is_cut(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event
) -> None:
    for text in ("left out", "also out", "é" * 10, "x" * 10):
        direct.log.append(event(text))

    pack = await recall(cortex, budgets=room(4 + 3))

    assert texts(pack) == ["x" * 10, "é" * 4]
    assert [shown.get("_partial") for shown in pack["layers"]["events"]] == [None, True]
    assert pack["diagnostics"]["knapsack_evictions"] == 2


async def test_the_default_room_is_4000_tokens(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event
) -> None:
    direct.log.append(event("x" * 12_001))

    assert [len(text) for text in texts(await recall(cortex))] == [12_000]


async def test_events_carry_their_stored_text_once_each(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event
) -> None:
    direct.log.append(event("two\nlines", role="assistant", labels=["a"]))

    pack = await recall(cortex)

    assert texts(pack) == ["two\nlines"]
    assert pack["layers"]["events"][0]["context"]["labels"] == ["a"]
    assert pack["context_block"] == "[2026-09-02 00:00:00 UTC] [assistant] two lines"


async def test_beliefs_and_facts_come_newest_first_where_a_word_is_in_their_json(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event
) -> None:
    for text in ("trains", "planes", "night trains"):
        direct.log.append(event(text))
    direct.log.build(NOTES)

    pack = await recall(cortex, "trains", include=["facts", "beliefs"], budgets=room(10, facts=9, beliefs=9))

    assert [fact["text"] for fact in pack["layers"]["facts"]] == ["night trains", "trains"]
    assert [belief["id"] for belief in pack["layers"]["beliefs"]] == ["belief_evt_3", "belief_evt_1"]
    assert pack["layers"]["facts"][0] == {
        "id": "fact_evt_3",
        "scope": NOTES,
        "source": "evt_3",
        "text": "night trains",
    }


@pytest.mark.parametrize(
    ("view", "seen"),
    [("granular", ["own"]), ("descend", ["below", "own"]), ("holistic", ["below", "own", "above"])],
)
async def test_a_view_says_how_far_beliefs_are_read_too(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event, view: str, seen: list[str]
) -> None:
    node = "app:tinymemory/agent:a"
    scopes = {
        "above": "app:tinymemory",
        "own": node,
        "below": f"{node}/agent:b",
        "beside": "app:tinymemory/agent:ab",
    }
    for text, scope in scopes.items():
        direct.log.append(event(text, scope=scope))
        direct.log.build(scope)

    pack = await recall(cortex, scope=node, view=view, include=["beliefs"], budgets=room(10, beliefs=9))

    assert [belief["claim"]["object"]["value"] for belief in pack["layers"]["beliefs"]] == seen


# Answering.


async def test_an_answer_quotes_its_question(cortex: httpx.AsyncClient) -> None:
    pack = await recall(cortex)

    answer = await cortex.post(
        "/v1/answer", json={"scope": NOTES, "question": "which seat?", "use_pack_id": pack["pack_id"]}
    )

    assert pack["pack_id"] == "pack_1"
    assert answer.json() == {
        "answer": "from the pack: which seat?",
        "citations": [],
        "diagnostics": {"answer_model": "reasoning"},
    }


@pytest.mark.parametrize(
    ("changes", "failure"),
    [
        ({"use_pack_id": None}, (400, "MISSING_PACK")),
        ({"use_pack_id": "pack_99"}, (404, "NOT_FOUND")),
        ({"scope": "app:other"}, (400, "PACK_SCOPE_MISMATCH")),
        ({"question": None}, (422, "INVALID_BODY")),
        ({"question": ""}, (422, "INVALID_BODY")),
    ],
)
async def test_an_answer_needs_a_live_pack_its_scope_and_a_question(
    cortex: httpx.AsyncClient, changes: dict[str, Any], failure: tuple[int, str]
) -> None:
    pack = await recall(cortex)
    body = {"scope": NOTES, "question": "which?", "use_pack_id": pack["pack_id"], **changes}

    answer = await cortex.post("/v1/answer", json=body)

    assert (answer.status_code, answer.json()["error_code"]) == failure


async def test_a_pack_lives_for_60_seconds(direct: CortexServer, cortex: httpx.AsyncClient) -> None:
    pack = await recall(cortex)
    body = {"scope": NOTES, "question": "which?", "use_pack_id": pack["pack_id"]}

    direct.clock.advance(59)
    alive = await cortex.post("/v1/answer", json=body)
    direct.clock.advance(1)
    dead = await cortex.post("/v1/answer", json=body)

    assert (alive.status_code, dead.status_code) == (200, 404)
