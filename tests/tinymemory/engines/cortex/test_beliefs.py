"""§9 items 135 to 145: builds, and the beliefs they leave."""

from collections.abc import Callable
from typing import Any

import pytest

from tinymemory import (
    BeliefsRequest,
    ConsolidateRequest,
    ConsolidateStatus,
    Conversation,
    ForgetTarget,
    ItemKind,
    Learning,
    MemoryMeta,
    Reach,
    Turn,
    UnavailableError,
)
from tinymemory.engines.cortex import CortexEngine
from tinymemory.engines.cortex.beliefs import belief_hits
from tinymemory.engines.cortex.surface import Surface
from tinymemory.items import Role
from tinymemory.query import Hit
from tinymemory.testing import CortexServer, raw

Connect = Callable[..., CortexEngine]
direct_only = pytest.mark.parametrize("wire", ["direct"])
hosted_only = pytest.mark.parametrize("wire", ["hosted"])
EVERYTHING = ConsolidateRequest(reach=Reach.subtree("root"))
LEARNINGS = "app:tinymemory/app:learnings"


def learning(text: str, at: str = "root", **meta: Any) -> Learning:
    return Learning(text=text, meta=MemoryMeta.model_validate({"namespace": at, **meta}))


def built_scopes(server: CortexServer) -> list[str]:
    return [body["scope"] for body in server.seen.builds]


@direct_only
async def test_a_build_names_each_held_scope_in_reach_once_and_in_order(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 135
    talk = Conversation(turns=(Turn(role=Role.USER, text="hello"),), meta=learning("", "agent:b").meta)
    await engine.store_many([learning("b", "agent:b"), learning("a", "agent:a"), talk, learning("root")])

    receipt = await engine.consolidate(EVERYTHING)

    assert receipt.scopes == 4
    assert built_scopes(server) == [
        "app:tinymemory/agent:b/app:conversations",
        "app:tinymemory/app:learnings",
        "app:tinymemory/agent:a/app:learnings",
        "app:tinymemory/agent:b/app:learnings",
    ]
    assert server.seen.builds[0] == {"scope": "app:tinymemory/agent:b/app:conversations"}

    server.seen.clear()
    await engine.consolidate(ConsolidateRequest(reach=Reach.exact("agent:b"), kinds=(ItemKind.CONVERSATION,)))
    assert built_scopes(server) == ["app:tinymemory/agent:b/app:conversations"]

    server.seen.clear()
    receipt = await engine.consolidate(ConsolidateRequest(reach=Reach.exact("agent:nobody")))
    assert built_scopes(server) == []
    assert (receipt.status, receipt.built, receipt.scopes) == (ConsolidateStatus.COMPLETED, 0, 0)


@direct_only
async def test_a_build_straight_after_a_write_builds_nothing_and_after_the_delay_it_does(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 items 136 and 137
    server.knobs.extraction_delay = 120.0
    await engine.store(learning("tide"))

    early = await engine.consolidate(EVERYTHING)
    assert (early.status, early.built) == (ConsolidateStatus.COMPLETED, 0)
    assert server.log.pending(LEARNINGS) == 1
    assert server.log.build(LEARNINGS)["reasons"] == {"facts_pending_extraction": 1}

    server.clock.advance(120.0)
    assert (await engine.consolidate(EVERYTHING)).built == 1
    assert (await engine.consolidate(EVERYTHING)).built == 0
    assert server.log.build(LEARNINGS)["reasons"] == {"belief_exists": 1}


@direct_only
async def test_a_tool_turn_yields_no_belief_whenever_it_is_built(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 138
    turns = (Turn(role=Role.TOOL, text="21:40"), Turn(role=Role.TOOL, text="platform 7"))
    await engine.store(Conversation(turns=turns))
    await engine.store(learning("hidden", derive=False))
    server.clock.advance(3600)

    assert (await engine.consolidate(EVERYTHING)).built == 0
    assert await engine.beliefs(BeliefsRequest()) == []


ANSWERS: list[tuple[list[Any], str, list[str], int | None]] = [
    ([{"built": 2}, {"built": 3}], "completed", [], 5),
    ([{"built": 2}, {"built": "3"}], "started", [], None),
    ([{"built": 2}, {"built": True}], "started", [], None),
    ([{"built": 2}, {}], "started", [], None),
    ([{"built": 2}, None], "started", [], None),
    ([{"built": 2}, []], "started", [], None),
    ([{"job_id": "j1", "built": 1}, {"built": 1}], "started", ["j1"], None),
    ([{"job_id": "", "build_id": "b1", "id": "x"}, {"id": 7}], "started", ["b1", "7"], None),
    ([{"job_id": None, "id": "i1"}, {"job_id": False, "built": 1}], "started", ["i1"], None),
]


@direct_only
@pytest.mark.parametrize(("answers", "status", "jobs", "built"), ANSWERS)
async def test_counts_in_every_answer_make_completed_and_a_handle_or_a_missing_count_makes_started(
    engine: CortexEngine,
    server: CortexServer,
    answers: list[Any],
    status: str,
    jobs: list[str],
    built: int | None,
) -> None:
    # §9 item 139
    await engine.store_many([learning("a"), learning("b", "agent:b")])
    server.knobs.raw_answers = {"POST /v1/beliefs/build": [raw.json_answer(answer) for answer in answers]}

    receipt = await engine.consolidate(EVERYTHING)

    assert (receipt.status.value, receipt.jobs, receipt.scopes, receipt.built) == (status, jobs, 2, built)


@direct_only
async def test_a_failing_build_stops_is_not_retried_and_keeps_the_earlier_ones(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 140
    await engine.store_many([learning("a"), learning("b", "agent:b"), learning("c", "agent:c")])
    path = "POST /v1/beliefs/build"
    server.knobs.raw_answers = {path: [raw.json_answer({"built": 1}), raw.json_answer({}, 503)]}

    with pytest.raises(UnavailableError):
        await engine.consolidate(EVERYTHING)

    assert server.seen.count(path) == 2


@hosted_only
async def test_the_hosted_wire_answers_scheduled_without_a_request(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 141
    receipt = await engine.consolidate(EVERYTHING)

    assert receipt.status is ConsolidateStatus.SCHEDULED
    assert (receipt.jobs, receipt.built) == ([], None)
    assert server.seen.requests == []


async def test_beliefs_with_a_query_are_ranked(engine: CortexEngine, server: CortexServer) -> None:
    # §9 item 142
    await engine.store_many(
        [learning("tide one"), learning("tide two", "agent:a"), learning("moon", "agent:a")]
    )
    for path in server.log.scopes():
        server.log.build(path)
    server.seen.clear()

    hits = await engine.beliefs(BeliefsRequest(query="tide", limit=5))

    assert sorted(hit.text for hit in hits) == ["user said tide one", "user said tide two"]
    assert all(hit.meta.tags == ("belief",) and hit.kind is ItemKind.LEARNING for hit in hits)
    assert [hit.score for hit in hits] == [1.0, 1.0]
    for body in server.seen.recalls:
        assert body["include"] == ["beliefs"]
        assert body["budgets"]["per_layer_limits"] == {
            "events": 0,
            "facts": 0,
            "episodes": 0,
            "understanding": 0,
            "beliefs": 5,
        }
        assert body["budgets"]["max_tokens"] == 5 * 786_432
    assert len(await engine.beliefs(BeliefsRequest(query="tide", limit=1))) == 1


async def test_a_belief_of_another_place_is_not_within_the_reach_of_a_query(
    engine: CortexEngine, server: CortexServer, surface: Surface
) -> None:
    # §9 item 142
    await engine.store(learning("tide", "agent:a"))
    found = [belief(at, at, scope=f"app:tinymemory/{at}/app:learnings") for at in ("agent:a", "agent:b")]
    pack: dict[str, Any] = {"pack_id": "p", "layers": {"beliefs": found}}
    answer = raw.json_answer({**pack, "success": True, "data": pack})
    server.knobs.raw_answers = {f"POST /{surface.recall}": [answer]}

    hits = await engine.beliefs(BeliefsRequest(query="tide", reach=Reach.exact("agent:a")))

    assert [hit.id for hit in hits] == ["agent:a"]


def belief(id_: str, text: str, **fields: Any) -> dict[str, Any]:
    claim = {"subject": {"name": "ann"}, "predicate": "said_of_it", "object": {"value": text}}
    return {"id": id_, "scope": LEARNINGS, "claim": claim, "stance": "supported", "confidence": 0.5, **fields}


@direct_only
async def test_beliefs_without_a_query_are_listed_by_confidence_and_then_date(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 142
    await engine.store(learning("tide"))
    for stored in (
        belief("undated", "undated"),
        belief("old", "old", valid_from="2026-01-01T00:00:00Z"),
        belief("new", "new", valid_from="2026-02-01T00:00:00Z"),
        belief("sure", "sure", confidence=0.9),
        belief("twin", "OLD", valid_from="2025-01-01T00:00:00Z"),
    ):
        server.log.add_belief(stored)

    hits = await engine.beliefs(BeliefsRequest(limit=9))

    assert [hit.id for hit in hits] == ["sure", "new", "old", "undated"]
    assert hits[0].text == "ann said of it sure"
    assert len(await engine.beliefs(BeliefsRequest(limit=2))) == 2


@hosted_only
async def test_the_hosted_wire_without_a_query_answers_none_without_a_request(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 143
    assert await engine.beliefs(BeliefsRequest()) == []
    assert await engine.beliefs(BeliefsRequest(query=" ")) == []
    assert server.seen.requests == []


def one(**fields: Any) -> Hit | None:
    hits = belief_hits([belief("b", "it") | fields], None)
    return hits[0] if hits else None


def test_contested_says_so_other_stances_are_hidden_and_malformed_beliefs_are_skipped() -> None:
    # §9 item 144
    contested = one(stance="contested")
    assert contested is not None
    assert contested.text == "ann said of it it (contested)"
    for stance in ("refuted", "retracted", "", "SUPPORTED"):
        assert one(stance=stance) is None
    assert one(stance=None) is not None
    fields: list[dict[str, Any]] = [
        {"id": 7},
        {"id": None},
        {"scope": "app:other/app:learnings"},
        {"scope": None},
        {"claim": None},
        {"claim": "text"},
        {"claim": {"predicate": "is"}},
        {"claim": {"object": "is"}},
        {"claim": {"predicate": " ", "object": "x"}},
        {"claim": {"predicate": "is", "object": []}},
        {"claim": {"predicate": "is", "object": {"value": None}}},
        {"claim": {"predicate": "is", "object": {"value": {"a": 1}}}},
    ]
    for broken in fields:
        assert one(**broken) is None
    junk: list[Any] = [None, 7, "x", [], {}]
    for thing in junk:
        assert belief_hits([thing], None) == []


@pytest.mark.parametrize(
    ("claim", "text"),
    [
        ({"subject": "ann", "predicate": "likes", "object": "tea"}, "ann likes tea"),
        ({"predicate": "is_open", "object": True}, "is open true"),
        ({"predicate": "costs", "object": {"value": 7}}, "costs 7"),
        ({"subject": {"name": " Ann "}, "predicate": {"value": "has"}, "object": 1.5}, "Ann has 1.5"),
        ({"subject": {}, "predicate": "is", "object": {"name": None, "value": "late"}}, "is late"),
    ],
)
def test_a_claims_parts_are_read_by_name_by_value_or_as_they_are(claim: dict[str, Any], text: str) -> None:
    # §9 item 144
    hit = one(claim=claim)

    assert hit is not None
    assert hit.text == text


@pytest.mark.parametrize(
    ("fields", "confidence", "year"),
    [
        ({}, 0.5, None),
        ({"confidence": None}, 0.5, None),
        ({"confidence": "1"}, 0.5, None),
        ({"confidence": 7}, 1.0, None),
        ({"confidence": -1}, 0.0, None),
        ({"confidence": 10**400}, 0.5, None),
        ({"valid_from": "soon", "updated_at": "2025-01-01T00:00:00Z"}, 0.5, 2025),
        ({"valid_from": "0001-01-01T00:00:00+23:00", "created_at": "2024-01-01T00:00:00Z"}, 0.5, 2024),
        ({"valid_from": 7, "updated_at": "2025-01-01"}, 0.5, None),
        ({"updated_at": "2025-01-01T00:00:00Z", "valid_from": "2024-01-01T00:00:00Z"}, 0.5, 2024),
        ({"created_at": "2023-01-01T00:00:00Z", "updated_at": "2025-01-01T00:00:00Z"}, 0.5, 2025),
    ],
)
def test_a_beliefs_confidence_and_date(fields: dict[str, Any], confidence: float, year: int | None) -> None:
    # §9 item 144
    hit = one(**fields)

    assert hit is not None
    assert hit.confidence == confidence
    assert (hit.meta.observed_at and hit.meta.observed_at.year) == year


def test_a_beliefs_score_is_its_rank_in_its_list() -> None:
    # §9 item 142
    hits = belief_hits([belief("a", "a"), None, belief("b", "b")], None)

    assert [(hit.id, hit.score) for hit in hits] == [("a", 1.0), ("b", 0.5)]


async def test_forgetting_an_event_takes_its_beliefs_with_it(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 145
    await engine.store(learning("tide"))
    server.log.build(server.log.scopes()[0])
    assert len(await engine.beliefs(BeliefsRequest(query="tide"))) == 1

    await engine.forget(ForgetTarget.ids([learning("tide").fingerprint()]))

    assert await engine.beliefs(BeliefsRequest(query="tide")) == []


@direct_only
async def test_a_server_without_a_belief_listing_has_no_beliefs(
    engine: CortexEngine, server: CortexServer, surface: Surface
) -> None:
    await engine.store(learning("tide"))
    server.knobs.raw_answers = {f"GET /{surface.beliefs}": [raw.json_answer({}, 404)]}

    assert await engine.beliefs(BeliefsRequest()) == []
