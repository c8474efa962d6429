"""§9 items 109 to 127: fetches, answers, and the days a question is about."""

import asyncio
import logging
from collections.abc import Callable
from datetime import date
from typing import Any

import pytest

from tinymemory import (
    Conversation,
    FetchMode,
    FetchRequest,
    ForgetTarget,
    InvalidRequestError,
    Learning,
    MemoryMeta,
    MetaFilter,
    NotFoundError,
    Reach,
    RecallRequest,
    TimeHint,
    Turn,
    UnsupportedError,
)
from tinymemory.engines.cortex import CortexEngine
from tinymemory.engines.cortex.cursors import fetch_cursor
from tinymemory.engines.cortex.layout import lay_out
from tinymemory.engines.cortex.surface import Surface
from tinymemory.items import Role
from tinymemory.query import FetchPage
from tinymemory.testing import CortexServer, RawAnswer, raw

Connect = Callable[..., CortexEngine]
direct_only = pytest.mark.parametrize("wire", ["direct"])
HINT = TimeHint(date(2026, 1, 2), date(2026, 1, 2))


def learning(text: str, at: str = "root", **meta: Any) -> Learning:
    return Learning(text=text, meta=MemoryMeta.model_validate({"namespace": at, **meta}))


def conversation(*texts: str, at: str = "root") -> Conversation:
    turns = tuple(Turn(role=Role.USER, text=text) for text in texts)
    return Conversation(turns=turns, meta=MemoryMeta.model_validate({"namespace": at}))


def learnings(reach: Reach | None = None) -> MetaFilter:
    return MetaFilter.model_validate({"reach": reach, "kinds": ["learning"]})


async def fetch(engine: CortexEngine, query: str, **fields: Any) -> FetchPage:
    return await engine.fetch(FetchRequest.model_validate({"query": query, **fields}))


@pytest.mark.parametrize("mode", [FetchMode.KEYWORD, FetchMode.VECTOR])
async def test_keyword_and_vector_are_unsupported_before_any_request(
    engine: CortexEngine, server: CortexServer, mode: FetchMode
) -> None:
    # §9 item 109
    with pytest.raises(UnsupportedError):
        await fetch(engine, "tides", mode=mode)

    assert server.seen.requests == []


async def test_a_pack_names_one_exact_scope_its_layers_and_room_for_whole_events(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 110
    await fetch(engine, "tides", filter=learnings(Reach()), limit=3)
    await fetch(engine, "tides", filter=learnings(Reach()), limit=400, beliefs=5)

    assert server.seen.recalls == [
        {
            "scope": "app:tinymemory/app:learnings",
            "query": "tides",
            "view": "granular",
            "include": ["events"],
            "budgets": {"max_tokens": 8_388_608, "per_layer_limits": {"events": 12}},
        },
        {
            "scope": "app:tinymemory/app:learnings",
            "query": "tides",
            "view": "granular",
            "include": ["events", "beliefs"],
            "budgets": {"max_tokens": 8_388_608, "per_layer_limits": {"events": 1000, "beliefs": 5}},
        },
    ]


async def test_long_events_come_back_whole(engine: CortexEngine) -> None:
    # §9 item 110
    long = learning("tide " * 20_000)
    await engine.store(long)

    [hit] = (await fetch(engine, "tide")).hits

    assert hit.text == long.text


async def test_scopes_are_interleaved_rank_by_rank_and_scored_by_rank(engine: CortexEngine) -> None:
    # §9 item 111
    for place in ("agent:a", "agent:b"):
        for text in ("tide", "tide moon", "tide moon sun"):
            await engine.store(learning(f"{text} {place}", place))

    page = await fetch(engine, "tide moon sun")

    assert [hit.text for hit in page.hits] == [
        "tide moon sun agent:a",
        "tide moon sun agent:b",
        "tide moon agent:a",
        "tide moon agent:b",
        "tide agent:a",
        "tide agent:b",
    ]
    assert [hit.score for hit in page.hits] == [1 / (1 + rank) for rank in range(6)]


async def test_pages_of_a_fetch_are_disjoint_and_together_the_whole_ranking(engine: CortexEngine) -> None:
    # §9 item 112
    await engine.store_many(
        [learning(f"tide number {number}", f"agent:a{number % 3}") for number in range(11)]
    )
    whole = (await fetch(engine, "tide", limit=50)).hits

    found: list[Any] = []
    cursor: str | None = None
    while True:
        page = await fetch(engine, "tide", limit=4, cursor=cursor)
        found += page.hits
        cursor = page.next_cursor
        if cursor is None:
            break

    assert found == whole
    assert len({hit.id for hit in found}) == 11
    assert (await fetch(engine, "tide", limit=11)).next_cursor is None
    assert (await fetch(engine, "tide", limit=10)).next_cursor == fetch_cursor(10)


async def test_a_page_beyond_any_number_is_empty(engine: CortexEngine) -> None:
    # §9 item 112
    await engine.store(learning("tide"))

    assert (await fetch(engine, "tide", cursor=fetch_cursor(10**30))).hits == []
    assert [hit.text for hit in (await fetch(engine, "tide", limit=10**30)).hits] == ["tide"]
    assert (await engine.recall(RecallRequest(question="tide", limit=10**30))).answer


async def test_a_one_turn_conversation_needs_no_lookup_and_longer_ones_one_a_namespace(
    engine: CortexEngine, server: CortexServer, surface: Surface
) -> None:
    # §9 item 113
    await engine.store_many([conversation(f"tide {number}", at="agent:a") for number in range(3)])
    server.seen.clear()
    assert len((await fetch(engine, "tide")).hits) == 3
    assert server.seen.count(f"GET /{surface.events}") == 0

    long = [
        conversation(f"tide {n}", "and the moon", at=f"agent:{name}") for n, name in enumerate("abcdefgh")
    ]
    await engine.store_many([*long, conversation("tide again", "and the sun", at="agent:a")])
    server.seen.clear()
    server.knobs.listing_delay = 0.05
    hits = (await fetch(engine, "tide", limit=50)).hits
    assert server.seen.count(f"GET /{surface.events}") == 8
    assert server.seen.listings_peak == 4
    texts = {hit.id: hit.text for hit in hits}
    assert all(texts[item.fingerprint()] == item.render_text() for item in long)


async def test_a_long_conversation_that_cannot_be_put_together_is_dropped(
    engine: CortexEngine, server: CortexServer, surface: Surface
) -> None:
    # §9 item 113
    await engine.store(conversation("tide", "moon"))
    server.knobs.hide_listing = 99

    assert (await fetch(engine, "tide")).hits == []


async def test_an_item_ranked_twice_is_one_hit_at_its_best_rank(engine: CortexEngine) -> None:
    # §9 item 114
    both = conversation("tide moon sun", "tide moon sun again")
    await engine.store(both)
    await engine.store(conversation("tide moon"))

    page = await fetch(engine, "tide moon sun")

    assert [hit.text for hit in page.hits] == [both.render_text(), "user: tide moon"]
    assert [hit.score for hit in page.hits] == [1.0, 0.5]


async def test_an_items_other_events_take_no_place_from_what_is_ranked_beside_it(
    engine: CortexEngine,
) -> None:
    # §9 item 114
    both = conversation("tide moon sun", "tide moon sun again", at="agent:a")
    await engine.store(both)
    await engine.store(conversation("tide moon", at="agent:a"))
    await engine.store_many([conversation("tide", at="agent:b"), conversation("tide moon", at="agent:b")])

    page = await fetch(engine, "tide moon sun")

    assert [hit.text for hit in page.hits] == [
        both.render_text(),
        "user: tide moon",
        "user: tide moon",
        "user: tide",
    ]
    assert [str(hit.meta.namespace) for hit in page.hits] == ["agent:a", "agent:b", "agent:a", "agent:b"]


async def test_an_item_that_two_scopes_rank_is_one_hit(
    engine: CortexEngine, server: CortexServer, surface: Surface
) -> None:
    # §9 item 114
    [event] = lay_out(learning("tide")).events
    raw_event = {"id": "e", "content": {"text": event.text}, "context": {"labels": list(event.labels)}}
    pack = {"pack_id": "p", "layers": {"events": [raw_event]}}
    answer = raw.json_answer({**pack, "success": True, "data": pack})
    server.knobs.raw_answers = {f"POST /{surface.recall}": [answer] * 2}

    page = await fetch(engine, "tide", filter=learnings(Reach.of("agent:a")))

    assert [hit.id for hit in page.hits] == [event.item_id]


async def test_four_scopes_are_read_at_once_and_not_five(engine: CortexEngine, server: CortexServer) -> None:
    # §9 item 115
    await engine.store_many([learning("tide", f"agent:a{number}") for number in range(6)])
    server.seen.clear()
    server.knobs.recall_delay = 0.05

    await fetch(engine, "tide", filter=learnings())

    assert len(server.seen.recalls) == 7
    assert server.seen.recalls_peak == 4


async def test_the_first_error_ends_a_group_and_is_the_one_raised(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 115
    await engine.store_many([learning("tide", f"agent:a{number}") for number in range(9)])
    server.seen.clear()
    server.knobs.refuse_recall = True

    with pytest.raises(InvalidRequestError):
        await fetch(engine, "tide", filter=learnings())

    assert len(server.seen.recalls) <= 8


async def test_beliefs_come_with_the_first_page_from_the_same_packs(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 116
    for place, texts in (("agent:a", ["tide one", "tide two"]), ("agent:b", ["tide one", "tide three"])):
        for text in texts:
            await engine.store(learning(text, place))
    for path in server.log.scopes():
        server.log.build(path)
    server.seen.clear()

    first = await fetch(engine, "tide", limit=2, beliefs=3, filter=learnings())
    second = await fetch(engine, "tide", limit=2, beliefs=3, cursor=first.next_cursor, filter=learnings())

    sentences = [hit.text for hit in first.beliefs]
    assert len(sentences) == len(set(sentences)) == 3
    assert all(hit.meta.tags == ("belief",) for hit in first.beliefs)
    assert second.beliefs == []
    assert len(server.seen.recalls) == 6
    assert ["beliefs" in body["include"] for body in server.seen.recalls] == [True] * 3 + [False] * 3


async def test_a_belief_is_one_whatever_the_letter_case_of_its_sentence(
    engine: CortexEngine, server: CortexServer, surface: Surface
) -> None:
    # §9 item 116
    beliefs = [
        {"id": word, "scope": "app:tinymemory/app:learnings", "claim": {"predicate": "is", "object": word}}
        for word in ("Tide", "tide", "TIDE", "moon")
    ]
    pack: dict[str, Any] = {"pack_id": "p", "layers": {"events": [], "beliefs": beliefs}}
    answer = raw.json_answer({**pack, "success": True, "data": pack})
    server.knobs.raw_answers = {f"POST /{surface.recall}": [answer]}

    page = await fetch(engine, "tide", beliefs=9, filter=learnings(Reach()))

    assert [hit.text for hit in page.beliefs] == ["is Tide", "is moon"]


async def test_beliefs_stay_within_the_reach(
    engine: CortexEngine, server: CortexServer, surface: Surface
) -> None:
    # §9 item 116
    beliefs = [
        {
            "id": "b",
            "scope": f"org:t1/app:tinymemory/{at}app:learnings",
            "claim": {"predicate": "is", "object": at},
        }
        for at in ("agent:a/", "agent:b/")
    ]
    pack = {"pack_id": "p", "layers": {"events": [], "beliefs": beliefs}}
    answer = raw.json_answer({**pack, "success": True, "data": pack})
    server.knobs.raw_answers = {f"POST /{surface.recall}": [answer] * 2}

    page = await fetch(engine, "tide", beliefs=9, filter=learnings(Reach.of("agent:a")))

    assert [hit.text for hit in page.beliefs] == ["is agent:a/"]


async def test_recall_answers_from_the_pack_with_the_most_events_and_cites_from_all(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 117
    await engine.store(learning("tide deep", "team:t/agent:deep"))
    await engine.store_many([learning(f"tide {number}") for number in range(3)])

    answer = await engine.recall(RecallRequest(question="tide", limit=3))

    assert answer.answer == "from the pack: tide"
    assert answer.model == "reasoning"
    assert [body["scope"] for body in server.seen.answers] == ["app:tinymemory/app:learnings"]
    assert [citation.snippet for citation in answer.citations] == ["tide deep", "tide 2", "tide 1"]
    assert all(citation.score is None for citation in answer.citations)


async def test_an_answers_packs_ask_for_what_was_derived_too(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 117
    await engine.store(learning("tide"))
    server.seen.clear()

    await engine.recall(RecallRequest(question="tide", limit=6))

    [pack] = server.seen.recalls
    assert pack["include"] == ["events", "facts", "beliefs", "episodes", "understanding"]
    assert pack["budgets"] == {
        "max_tokens": 8_388_608,
        "per_layer_limits": {"events": 12, "facts": 2, "beliefs": 2, "episodes": 1, "understanding": 1},
    }


async def test_the_earlier_of_two_equal_packs_answers_and_the_deepest_scope_is_the_earliest(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 117
    await engine.store(learning("tide"))
    await engine.store(learning("tide", "agent:a"))

    await engine.recall(RecallRequest(question="tide"))

    assert [body["scope"] for body in server.seen.answers] == ["app:tinymemory/agent:a/app:learnings"]


async def test_a_pack_without_an_id_is_an_engine_error(
    engine: CortexEngine, server: CortexServer, surface: Surface
) -> None:
    # §9 item 117
    await engine.store(learning("tide"))
    server.knobs.raw_answers = {f"POST /{surface.recall}": ["wrong_types"]}

    with pytest.raises(Exception, match="no id to answer from"):
        await engine.recall(RecallRequest(question="tide"))


async def test_a_forget_between_pack_and_answer_rebuilds_every_pack(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 118
    await engine.store(learning("tide"))
    await engine.store(learning("tide", "agent:a"))
    server.seen.clear()

    server.knobs.expire_packs = 2
    assert (await engine.recall(RecallRequest(question="tide"))).answer == "from the pack: tide"
    assert (len(server.seen.recalls), len(server.seen.answers)) == (6, 3)

    server.knobs.expire_packs = 3
    with pytest.raises(NotFoundError, match="3 times"):
        await engine.recall(RecallRequest(question="tide"))
    assert (len(server.seen.recalls), len(server.seen.answers)) == (12, 6)


@pytest.mark.parametrize("instructions", [None, "briefly"])
async def test_the_answer_body_passes_the_strict_schema_with_and_without_instructions(
    engine: CortexEngine, server: CortexServer, surface: Surface, instructions: str | None
) -> None:
    # §9 item 119
    await engine.store(learning("tide"))

    await engine.recall(RecallRequest(question="tide", instructions=instructions))

    [body] = server.seen.answers
    assert body.pop("use_pack_id").startswith("pack_")
    expected: dict[str, Any] = {
        "scope": "app:tinymemory/app:learnings",
        "question": "tide",
        "cite_sources": True,
        "include_context": True,
    }
    if instructions is not None or not surface.is_hosted:
        expected["answer_instructions"] = instructions
    assert body == expected


async def test_nothing_held_means_an_empty_answer_and_no_recall(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 120
    answer = await engine.recall(RecallRequest(question="tide"))

    assert (answer.answer, answer.citations) == ("", [])
    assert server.seen.recalls == []
    assert server.seen.answers == []


async def test_what_a_pack_warns_of_is_logged_at_its_level_on_one_line(
    engine: CortexEngine, server: CortexServer, surface: Surface, caplog: pytest.LogCaptureFixture
) -> None:
    # §9 item 121
    caplog.set_level(logging.DEBUG, "tinymemory")
    event = {"id": "e", "content": {"text": "x"}, "_partial": True}
    contributors: list[Any] = [{"evicted_from_layers": is_evicted} for is_evicted in (True, False, "yes")]
    contributors += [{}, None]
    pack = {
        "pack_id": "p",
        "layers": {"events": [event]},
        "warnings": ["slow\nERROR forged", "parent_pack_unranked_sample", "parent_pack_unranked_sample: 3", 7,
                     "parent_pack_unranked_samples"],
        "diagnostics": {"knapsack_evictions": 4},
        "provenance": {"trail": [{"context_contributors": contributors}, 3]},
    }  # fmt: skip
    answer = raw.json_answer({**pack, "success": True, "data": pack})
    server.knobs.raw_answers = {f"POST /{surface.recall}": [answer]}

    await fetch(engine, "tide", filter=learnings(Reach()))

    ours = [record for record in caplog.records if record.name.startswith("tinymemory")]
    logged = [(record.levelname, record.getMessage()) for record in ours]
    assert logged == [
        ("DEBUG", "pack warning: slow\\nERROR forged"),
        ("WARNING", "pack warning: parent_pack_unranked_sample"),
        ("WARNING", "pack warning: parent_pack_unranked_sample: 3"),
        ("DEBUG", "pack warning: parent_pack_unranked_samples"),
        ("WARNING", "pack left out 4 events for its token budget"),
        ("WARNING", "pack dropped 1 contributors from its layers"),
        ("WARNING", "pack cut the text of 1 events"),
    ]


@pytest.mark.parametrize("string_prefix", [False, True])
async def test_a_siblings_scope_with_a_longer_name_is_never_read(
    engine: CortexEngine, server: CortexServer, string_prefix: bool
) -> None:
    # §9 item 122
    server.knobs.string_prefix_scopes = string_prefix
    await engine.store(learning("tide of ann", "user:ann"))
    await engine.store(learning("tide of anna", "user:anna"))
    await engine.store(learning("tide of ann below", "user:ann/agent:x"))

    for reach in (Reach.of("user:ann"), Reach.exact("user:ann"), Reach.subtree("user:ann")):
        page = await fetch(engine, "tide", filter=learnings(reach))
        assert {hit.text for hit in page.hits} <= {"tide of ann", "tide of ann below"}
        assert len(page.hits) == (2 if reach.descendants else 1)
    assert not [body for body in server.seen.recalls[3:] if "anna" in body["scope"]]


async def test_an_old_servers_rendered_text_still_reads(engine: CortexEngine, server: CortexServer) -> None:
    # §9 item 50
    server.knobs.recall_role_prefix = True
    big = learning("tide").model_copy(update={"evidence": "e" * 16_000})
    await engine.store(big)

    assert [hit.text for hit in (await fetch(engine, "tide")).hits] == ["tide"]


async def test_a_hint_lifts_the_hinted_days_over_other_scopes_better_ranks_and_drops_nothing(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 123
    await engine.store(learning("tide moon sun", "agent:a"))
    await engine.store(learning("tide moon", "agent:a", observed_at="2026-01-03T00:00:00Z"))
    await engine.store(learning("tide", "agent:b", observed_at="2026-01-02T23:59:59Z"))

    page = await fetch(engine, "tide moon sun", refers_to=HINT)
    answer = await engine.recall(RecallRequest(question="tide moon sun", refers_to=HINT))

    assert [hit.text for hit in page.hits] == ["tide", "tide moon sun", "tide moon"]
    assert [citation.snippet for citation in answer.citations] == ["tide", "tide moon sun", "tide moon"]
    sent = [body["temporal"] for body in server.seen.recalls if "temporal" in body]
    assert {str(temporal) for temporal in sent} == {
        str({"refers_during": {"from": "2026-01-02", "to": "2026-01-02"}})
    }


async def test_a_hint_in_a_zone_names_it(engine: CortexEngine, server: CortexServer) -> None:
    # §9 item 123
    await engine.store(learning("tide", observed_at="2026-01-02T20:00:00Z"))
    server.seen.clear()

    await fetch(
        engine, "tide", refers_to=TimeHint(HINT.from_, HINT.to, "Asia/Kolkata"), filter=learnings(Reach())
    )

    [body] = server.seen.recalls
    assert body["temporal"]["timezone"] == "Asia/Kolkata"


async def test_no_date_is_too_far_off_for_a_hint(engine: CortexEngine) -> None:
    # §9 item 153
    await engine.store(learning("tide one", observed_at="0001-01-01T00:00:00Z"))
    await engine.store(learning("tide two", observed_at="9999-12-31T23:59:59Z"))

    for zone in ("America/Los_Angeles", "Pacific/Auckland"):
        page = await fetch(engine, "tide", refers_to=TimeHint(HINT.from_, HINT.to, zone))
        assert len(page.hits) == 2


@direct_only
async def test_the_version_is_asked_once_for_concurrent_first_fetches(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 124
    await asyncio.gather(*(fetch(engine, "tide", refers_to=HINT) for _ in range(6)))
    await engine.with_default_headers({"x-a": "b"}).fetch(FetchRequest(query="tide", refers_to=HINT))

    assert server.seen.count("GET /v1/admin/version") == 1


async def test_without_a_hint_the_version_is_not_asked(engine: CortexEngine, server: CortexServer) -> None:
    # §9 item 124
    await fetch(engine, "tide")

    assert server.seen.count("GET /v1/admin/version") == 0


@direct_only
async def test_a_server_that_does_not_list_the_capability_gets_no_hint(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 125
    server.knobs.capabilities = ["something_else"]
    await engine.store(learning("tide moon", "agent:a"))
    await engine.store(learning("tide", "agent:b", observed_at="2026-01-02T12:00:00Z"))

    page = await fetch(engine, "tide moon", refers_to=HINT)

    assert not any("temporal" in body for body in server.seen.recalls)
    assert [hit.text for hit in page.hits] == ["tide", "tide moon"]


@direct_only
@pytest.mark.parametrize(
    "answer", [RawAnswer(404), RawAnswer(503), RawAnswer(body=b"<html>"), RawAnswer(body=b"[]")]
)
async def test_an_unreadable_version_gets_the_hint(
    engine: CortexEngine, server: CortexServer, answer: RawAnswer
) -> None:
    # §9 item 125
    server.knobs.raw_answers = {"GET /v1/admin/version": [answer]}

    await fetch(engine, "tide", refers_to=HINT)
    await fetch(engine, "tide", refers_to=HINT)

    assert all("temporal" in body for body in server.seen.recalls)
    assert server.seen.count("GET /v1/admin/version") == 1


async def test_a_refused_hint_costs_one_more_request_once_in_the_engines_life(
    engine: CortexEngine, server: CortexServer, caplog: pytest.LogCaptureFixture
) -> None:
    # §9 item 126
    server.knobs.refuse_temporal = True
    one = learnings(Reach())

    for _ in range(3):
        await fetch(engine, "tide", refers_to=HINT, filter=one)

    assert ["temporal" in body for body in server.seen.recalls] == [True, False, False, False]
    assert len([record for record in caplog.records if "refuses time hints" in record.getMessage()]) == 1


async def test_a_refusal_that_is_not_about_the_hint_is_raised_and_leaves_the_gate_as_it_was(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 127
    one = learnings(Reach())
    server.knobs.refuse_recall = True
    with pytest.raises(InvalidRequestError):
        await fetch(engine, "tide", refers_to=HINT, filter=one)
    server.knobs.refuse_recall = False
    await fetch(engine, "tide", refers_to=HINT, filter=one)

    assert ["temporal" in body for body in server.seen.recalls] == [True, False, True]


async def test_a_malformed_request_sends_nothing(engine: CortexEngine, server: CortexServer) -> None:
    for request in (FetchRequest(query=" "), FetchRequest(query="x", limit=0)):
        with pytest.raises(InvalidRequestError):
            await engine.fetch(request)
    for question in (RecallRequest(question="\u2003"), RecallRequest(question="x", limit=0)):
        with pytest.raises(InvalidRequestError):
            await engine.recall(question)
    with pytest.raises(InvalidRequestError):
        await engine.forget(ForgetTarget.ids([]))

    assert server.seen.requests == []
