"""What a pack lists: beliefs among the learnings, each item once, limits and exclusions kept."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinymemory import (
    Answer,
    Citation,
    ContextPack,
    EngineError,
    FetchPage,
    FetchRequest,
    Hit,
    HolisticRecall,
    ItemKind,
    Latest,
    ListPage,
    MemoryMeta,
    MetaFilter,
    Reach,
    RecallAnswer,
    ReferenceEngine,
    ScopeSection,
    SkippedSection,
    ThreadWindow,
    holistic_recall,
)
from tinymemory.redaction import redacted
from tinymemory.testing.watched import WatchedEngine

MakeHit = Callable[..., Hit]
LEARNINGS = MetaFilter(kinds=(ItemKind.LEARNING,))
DOCUMENTS = MetaFilter(kinds=(ItemKind.DOCUMENT,))
TALKS = MetaFilter(kinds=(ItemKind.CONVERSATION,))


def refs(pack: ContextPack) -> dict[str, list[str]]:
    return {section.heading: section.refs for section in pack.sections}


def answer_fetches(engine: WatchedEngine, *pages: tuple[MetaFilter, FetchPage]) -> None:
    def fetch(request: FetchRequest) -> FetchPage:
        page = next((page for wanted, page in pages if wanted == request.filter), FetchPage())
        return FetchPage(hits=page.hits[: request.limit], beliefs=page.beliefs[: request.beliefs])

    engine.watch.answers["fetch"] = fetch


async def test_beliefs_are_interleaved_rank_by_rank_stored_learnings_first(
    engine: WatchedEngine, make_hit: MakeHit
) -> None:
    page = FetchPage(
        hits=[make_hit("s1"), make_hit("s2")],
        beliefs=[make_hit("b1"), make_hit("b2"), make_hit("b3")],
    )
    answer_fetches(engine, (LEARNINGS, page))

    pack = await holistic_recall(engine, HolisticRecall([ScopeSection("L", LEARNINGS, 4)], "q"))

    assert pack.refs == ["s1", "b1", "s2", "b2"]


async def test_beliefs_of_every_fetch_are_merged_once_in_the_order_of_sections(
    engine: WatchedEngine, make_hit: MakeHit
) -> None:
    answer_fetches(
        engine,
        (DOCUMENTS, FetchPage(hits=[make_hit("d", "document")], beliefs=[make_hit("b1"), make_hit("b2")])),
        (LEARNINGS, FetchPage(hits=[make_hit("s1")], beliefs=[make_hit("b2"), make_hit("b3")])),
        (TALKS, FetchPage(hits=[], beliefs=[make_hit("b1"), make_hit("b4")])),
    )
    sections = [ScopeSection("D", DOCUMENTS), ScopeSection("L", LEARNINGS), ScopeSection("T", TALKS)]

    pack = await holistic_recall(engine, HolisticRecall(sections, "q"))

    assert refs(pack) == {"D": ["d"], "L": ["s1", "b1", "b2", "b3", "b4"]}


async def test_a_belief_shows_in_the_first_learnings_section_that_its_filter_fits(
    engine: WatchedEngine, make_hit: MakeHit
) -> None:
    acme = MetaFilter(reach=Reach.subtree("team:acme"), kinds=(ItemKind.LEARNING,))
    beliefs = [
        make_hit("theirs", namespace="team:other"),
        make_hit("ours", namespace="team:acme/agent:a"),
        make_hit("root's"),
    ]
    answer_fetches(engine, (acme, FetchPage(beliefs=beliefs)))

    pack = await holistic_recall(
        engine, HolisticRecall([ScopeSection("Ours", acme), ScopeSection("All", LEARNINGS)], "q")
    )

    assert refs(pack) == {"Ours": ["ours"], "All": ["theirs", "root's"]}


async def test_a_section_of_any_kind_holds_beliefs_and_one_without_learnings_does_not(
    engine: WatchedEngine, make_hit: MakeHit
) -> None:
    everything = MetaFilter()
    answer_fetches(
        engine,
        (DOCUMENTS, FetchPage(hits=[make_hit("d", "document")], beliefs=[make_hit("b")])),
        (everything, FetchPage(hits=[make_hit("t", "conversation")])),
    )

    pack = await holistic_recall(
        engine, HolisticRecall([ScopeSection("D", DOCUMENTS), ScopeSection("E", everything)], "q")
    )

    assert refs(pack) == {"D": ["d"], "E": ["t", "b"]}


async def test_the_newest_learnings_have_the_listed_beliefs_among_them(
    engine: WatchedEngine, make_hit: MakeHit
) -> None:
    engine.watch.answers["list"] = lambda _: ListPage(items=[make_hit("s1"), make_hit("s2")])
    engine.watch.answers["beliefs"] = lambda _: [make_hit("b1"), make_hit("b2")]

    pack = await holistic_recall(engine, HolisticRecall([ScopeSection("L", LEARNINGS, 3, Latest())]))

    assert pack.refs == ["s1", "b1", "s2"]


@pytest.mark.parametrize("failure", [EngineError("no"), RuntimeError("bug")])
async def test_a_failed_belief_read_is_not_a_failure(
    engine: WatchedEngine, make_hit: MakeHit, failure: Exception
) -> None:
    engine.watch.answers["list"] = lambda _: ListPage(items=[make_hit("s1")])
    engine.watch.failures["beliefs"] = failure

    pack = await holistic_recall(engine, HolisticRecall([ScopeSection("L", LEARNINGS, 3, Latest())]))

    assert (pack.refs, pack.skipped) == (["s1"], [])


async def test_a_learnings_section_that_fails_is_skipped_beliefs_or_not(
    engine: WatchedEngine, make_hit: MakeHit
) -> None:
    def fetch(request: FetchRequest) -> FetchPage:
        if request.filter == LEARNINGS:
            raise EngineError("down")
        return FetchPage(hits=[make_hit("d", "document")], beliefs=[make_hit("b")])

    engine.watch.answers["fetch"] = fetch

    pack = await holistic_recall(
        engine, HolisticRecall([ScopeSection("L", LEARNINGS), ScopeSection("D", DOCUMENTS)], "q")
    )

    assert refs(pack) == {"D": ["d"]}
    assert pack.skipped == [SkippedSection(heading="L", reason="engine error: down")]


async def test_an_item_shows_in_the_first_section_that_lists_it(
    engine: WatchedEngine, make_hit: MakeHit
) -> None:
    both = MetaFilter(tags_any=("x",))
    hits = [make_hit(f"d{number}", "document") for number in range(6)]
    answer_fetches(engine, (DOCUMENTS, FetchPage(hits=hits)), (both, FetchPage(hits=hits)))

    pack = await holistic_recall(
        engine, HolisticRecall([ScopeSection("A", DOCUMENTS, 2), ScopeSection("B", both, 3)], "q")
    )

    assert refs(pack) == {"A": ["d0", "d1"], "B": ["d2", "d3", "d4"]}


async def test_an_answer_citing_an_item_hides_it_from_no_section(
    engine: WatchedEngine, make_hit: MakeHit
) -> None:
    hit = make_hit("t", "conversation")
    citation = Citation(id="t", kind=hit.kind, snippet=hit.text, meta=hit.meta)
    engine.watch.answers["recall"] = lambda _: RecallAnswer(answer="Talked.", citations=[citation, citation])
    answer_fetches(engine, (TALKS, FetchPage(hits=[hit])))

    pack = await holistic_recall(
        engine, HolisticRecall([ScopeSection("A", TALKS, query=Answer("?")), ScopeSection("B", TALKS)], "q")
    )

    assert refs(pack) == {"A": ["t"], "B": ["t"]}
    assert pack.refs == ["t"]


async def test_a_hit_without_text_takes_no_bullet(engine: WatchedEngine, make_hit: MakeHit) -> None:
    hits = [make_hit("blank", "document", text=" \n"), make_hit("d", "document")]
    answer_fetches(engine, (DOCUMENTS, FetchPage(hits=hits)))

    pack = await holistic_recall(engine, HolisticRecall([ScopeSection("A", DOCUMENTS, 2)], "q"))

    assert pack.refs == ["d"]


@pytest.mark.parametrize(
    ("from_turn", "kept"), [(0, ("other", "learnt")), (4, ("t0-3", "unnumbered", "other", "learnt"))]
)
async def test_a_thread_window_drops_the_turns_at_or_after_it(
    engine: WatchedEngine, make_hit: MakeHit, from_turn: int, kept: tuple[str, ...]
) -> None:
    hits = [
        make_hit("t0-3", "conversation", thread_id="t", turns={"first": 0, "last": 3}),
        make_hit("t3-4", "conversation", thread_id="t", turns={"first": 3, "last": 4}),
        make_hit("t9", "conversation", thread_id="t", turns={"first": 9, "last": 9}),
        make_hit("unnumbered", "conversation", thread_id="t"),
        make_hit("other", "conversation", thread_id="u", turns={"first": 9, "last": 9}),
        make_hit("learnt", thread_id="t"),
    ]
    everything = MetaFilter()
    answer_fetches(engine, (everything, FetchPage(hits=hits)))

    pack = await holistic_recall(
        engine,
        HolisticRecall([ScopeSection("A", everything)], "q", exclude_thread=ThreadWindow("t", from_turn)),
    )

    assert pack.refs == list(kept)


async def test_a_thread_is_known_by_its_redacted_id_too(engine: WatchedEngine, make_hit: MakeHit) -> None:
    phone = "whatsapp:+43 660 1234567"
    hits = [make_hit("t", "conversation", thread_id=redacted(phone), turns={"first": 1, "last": 1})]
    answer_fetches(engine, (TALKS, FetchPage(hits=hits)))

    pack = await holistic_recall(
        engine, HolisticRecall([ScopeSection("A", TALKS)], "q", exclude_thread=ThreadWindow(phone))
    )

    assert pack.refs == []


async def test_excluded_ids_show_nowhere_not_as_beliefs_either(
    engine: WatchedEngine, make_hit: MakeHit
) -> None:
    page = FetchPage(hits=[make_hit("x"), make_hit("s")], beliefs=[make_hit("y"), make_hit("b")])
    answer_fetches(engine, (LEARNINGS, page))

    pack = await holistic_recall(
        engine, HolisticRecall([ScopeSection("A", LEARNINGS)], "q", exclude_ids=("x", "y"))
    )

    assert pack.refs == ["s", "b"]


stored_ids = st.lists(st.sampled_from("abcdefghijklmnop"), max_size=16, unique=True)
belief_ids = st.lists(st.sampled_from("ABCDEFGH"), max_size=8, unique=True)
scopes = st.lists(st.tuples(stored_ids, belief_ids, st.integers(1, 6)), min_size=1, max_size=4)


def is_in_order(part: list[str], whole: list[str]) -> bool:
    return part == [id_ for id_ in whole if id_ in part]


@given(scopes, st.sets(st.sampled_from("abcdefghABCD"), max_size=4))
async def test_no_item_shows_twice_limits_hold_order_is_kept_and_over_asking_is_enough(
    scopes: list[tuple[list[str], list[str], int]], excluded: set[str]
) -> None:
    engine = WatchedEngine(ReferenceEngine())

    def hits(ids: list[str]) -> list[Hit]:
        return [Hit(id=id_, kind=ItemKind.LEARNING, text=id_, meta=MemoryMeta()) for id_ in ids]

    filters = [MetaFilter(reach=Reach.of(f"team:{number}")) for number in range(len(scopes))]
    pages = [FetchPage(hits=hits(stored), beliefs=hits(beliefs)) for stored, beliefs, _ in scopes]
    answer_fetches(engine, *zip(filters, pages, strict=True))
    sections = [ScopeSection(str(n), filters[n], limit) for n, (_, _, limit) in enumerate(scopes)]

    pack = await holistic_recall(engine, HolisticRecall(sections, "q", exclude_ids=sorted(excluded)))

    shown = [id_ for section in pack.sections for id_ in section.refs]
    assert len(shown) == len(set(shown))
    assert pack.refs == shown
    assert not excluded.intersection(shown)
    brought = scopes[0][2] + len(excluded)
    merged = list(dict.fromkeys(id_ for _, beliefs, _ in scopes for id_ in beliefs[:brought]))
    earlier: set[str] = set()
    for number, (stored, _, limit) in enumerate(scopes):
        listed = refs(pack).get(str(number), [])
        free = [id_ for id_ in stored if id_ not in earlier | excluded]
        assert len(listed) <= limit
        assert len(listed) >= min(limit, len(free))
        assert is_in_order([id_ for id_ in listed if id_.islower()], stored)
        assert is_in_order([id_ for id_ in listed if id_.isupper()], merged)
        earlier |= set(listed)
