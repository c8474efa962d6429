"""What a recall asks the engine for: which calls, all at once, and how much each brings."""

import asyncio
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

import pytest

from tinymemory import (
    Answer,
    BeliefsRequest,
    Citation,
    EngineDescriptor,
    EngineError,
    Fetch,
    FetchMode,
    FetchPage,
    FetchRequest,
    Hit,
    HolisticRecall,
    InvalidRequestError,
    ItemKind,
    Latest,
    ListPage,
    ListRequest,
    MetaFilter,
    Namespace,
    Reach,
    RecallAnswer,
    RecallRequest,
    ScopeSection,
    SkippedSection,
    ThreadWindow,
    TimeHint,
    UnavailableError,
    holistic_recall,
)
from tinymemory.testing.watched import WatchedEngine

MakeHit = Callable[..., Hit]
LEARNINGS = MetaFilter(reach=Reach.subtree("team:acme"), kinds=(ItemKind.LEARNING,))
DOCUMENTS = MetaFilter(reach=Reach.subtree("team:acme"), kinds=(ItemKind.DOCUMENT,))
TALKS = MetaFilter(reach=Reach.subtree("team:acme"), kinds=(ItemKind.CONVERSATION,))
DAY = datetime(2026, 9, 15, 9, 1, tzinfo=UTC)


def cited(hit: Hit) -> Citation:
    return Citation(id=hit.id, kind=hit.kind, snippet=hit.text, meta=hit.meta)


@pytest.mark.parametrize(
    ("request_", "named"),
    [
        (HolisticRecall([], budget_tokens=0), "budget_tokens"),
        (HolisticRecall([], budget_tokens=-5), "budget_tokens"),
        (HolisticRecall([], title=" \u3000"), "title"),
        (HolisticRecall([ScopeSection(" ")]), "heading"),
        (HolisticRecall([ScopeSection("Notes", limit=0)]), "`limit` of section `Notes`"),
        (HolisticRecall([ScopeSection("Notes", query=Answer("\n"))]), "question"),
        (HolisticRecall([], exclude_thread=ThreadWindow("t", -1)), "from_turn"),
    ],
)
async def test_an_invalid_request_is_refused_and_never_reaches_the_engine(
    engine: WatchedEngine, request_: HolisticRecall, named: str
) -> None:
    with pytest.raises(InvalidRequestError, match=named):
        await holistic_recall(engine, request_)

    assert engine.watch.calls == []


def test_nested_values_may_be_given_as_their_dicts() -> None:
    request = HolisticRecall.model_validate(
        {
            "sections": [
                {"heading": "A", "filter": {"kinds": ["learning"]}, "query": {"query": "x"}},
                {"heading": "B", "query": {"question": "why?"}},
            ],
            "exclude_thread": {"thread_id": "t"},
        }
    )

    assert request == HolisticRecall(
        [
            ScopeSection("A", MetaFilter(kinds=(ItemKind.LEARNING,)), query=Fetch("x")),
            ScopeSection("B", query=Answer("why?")),
        ],
        exclude_thread=ThreadWindow("t", 0),
    )


async def test_no_sections_are_an_empty_pack(engine: WatchedEngine) -> None:
    pack = await holistic_recall(engine, HolisticRecall([]))

    assert (pack.markdown, pack.tokens, pack.sections, pack.skipped, pack.engine) == (
        "",
        0,
        [],
        [],
        "reference",
    )


@pytest.mark.parametrize(
    ("section", "pack", "expected"),
    [("own", "the pack's", "own"), (None, "the pack's", "the pack's"), (" ", "the pack's", "the pack's")],
)
async def test_a_fetch_asks_for_its_own_query_else_for_the_packs(
    engine: WatchedEngine, section: str | None, pack: str, expected: str
) -> None:
    await holistic_recall(engine, HolisticRecall([ScopeSection("A", DOCUMENTS, query=Fetch(section))], pack))

    assert [request.query for request in engine.watch.requests("fetch")] == [expected]


@pytest.mark.parametrize("query", [None, "", "\u2003"])
async def test_a_fetch_without_any_query_lists_the_newest(engine: WatchedEngine, query: str | None) -> None:
    await holistic_recall(engine, HolisticRecall([ScopeSection("A", DOCUMENTS)], query))

    assert [call.method for call in engine.watch.calls] == ["list"]


@pytest.mark.parametrize(
    ("modes", "expected"),
    [
        ((FetchMode.KEYWORD, FetchMode.VECTOR, FetchMode.HYBRID), FetchMode.HYBRID),
        ((FetchMode.VECTOR, FetchMode.KEYWORD), FetchMode.VECTOR),
    ],
)
async def test_a_fetch_is_hybrid_where_served_and_else_of_the_first_mode(
    engine: WatchedEngine, modes: tuple[FetchMode, ...], expected: FetchMode
) -> None:
    descriptor = EngineDescriptor(id="x", label="X", description="", fetch_modes=modes)
    engine = WatchedEngine(engine.inner, descriptor=descriptor)

    pack = await holistic_recall(engine, HolisticRecall([ScopeSection("A", DOCUMENTS)], "q"))

    assert [request.mode for request in engine.watch.requests("fetch")] == [expected]
    assert pack.engine == "x"


async def test_on_an_engine_without_a_mode_a_fetch_lists_the_newest(engine: WatchedEngine) -> None:
    engine = WatchedEngine(engine.inner, descriptor=EngineDescriptor(id="x", label="X", description=""))

    await holistic_recall(
        engine, HolisticRecall([ScopeSection("A", DOCUMENTS), ScopeSection("B", LEARNINGS)], "q")
    )

    assert {call.method for call in engine.watch.calls} == {"list", "beliefs"}


async def test_each_fetch_over_asks_by_what_may_be_taken_from_it(engine: WatchedEngine) -> None:
    sections = [
        ScopeSection("A", DOCUMENTS, 8),
        ScopeSection("B", TALKS, 6, Answer("why?")),
        ScopeSection("C", TALKS, 3),
    ]

    await holistic_recall(engine, HolisticRecall(sections, "q"))
    plain = [request.limit for request in engine.watch.requests("fetch")]
    engine.watch.calls.clear()
    await holistic_recall(
        engine,
        HolisticRecall(sections, "q", exclude_ids=("x", "y", "y"), exclude_thread=ThreadWindow("t", 3)),
    )

    assert plain == [8, 3 + 8 + 6]
    assert [request.limit for request in engine.watch.requests("fetch")] == [8 + 2 + 8, 3 + 2 + 3 + 8 + 6]


async def test_an_answer_asks_for_its_limit_and_its_fallback_over_asks(engine: WatchedEngine) -> None:
    hint = TimeHint(date(2026, 9, 15), date(2026, 9, 15))
    engine.watch.failures["recall"] = UnavailableError("no model")

    await holistic_recall(
        engine,
        HolisticRecall(
            [
                ScopeSection("A", DOCUMENTS, 4),
                ScopeSection("B", TALKS, 5, Answer("why?", "be brief", fallback_to_fetch=True)),
            ],
            exclude_ids=("x",),
            refers_to=hint,
        ),
    )

    assert engine.watch.requests("recall") == [
        RecallRequest(question="why?", filter=TALKS, limit=5, instructions="be brief", refers_to=hint)
    ]
    assert engine.watch.requests("fetch") == [
        FetchRequest(query="why?", mode=FetchMode.HYBRID, filter=TALKS, limit=5 + 1 + 4, refers_to=hint)
    ]


async def test_with_learnings_in_the_pack_every_fetch_brings_as_many_beliefs_as_they_over_ask(
    engine: WatchedEngine,
) -> None:
    sections = [
        ScopeSection("Docs", DOCUMENTS, 5),
        ScopeSection("L", LEARNINGS, 4),
        ScopeSection("T", TALKS, 3),
    ]

    await holistic_recall(engine, HolisticRecall(sections, "q", exclude_ids=("x",)))

    assert [request.beliefs for request in engine.watch.requests("fetch")] == [4 + 1 + 5] * 3
    assert engine.watch.requests("beliefs") == []


async def test_without_learnings_no_fetch_brings_beliefs(engine: WatchedEngine) -> None:
    answer = ScopeSection("L", LEARNINGS, query=Answer("why?"))

    await holistic_recall(engine, HolisticRecall([ScopeSection("Docs", DOCUMENTS), answer], "q"))

    assert [request.beliefs for request in engine.watch.requests("fetch")] == [0]


@pytest.mark.parametrize(
    ("reach", "expected"),
    [
        (Reach.subtree("team:acme"), Reach.subtree("team:acme")),
        (None, Reach.subtree(Namespace.ROOT)),
    ],
)
async def test_learnings_without_a_query_list_the_beliefs_of_their_reach(
    engine: WatchedEngine, reach: Reach | None, expected: Reach
) -> None:
    section = ScopeSection("L", MetaFilter(reach=reach), 4, Latest())

    await holistic_recall(engine, HolisticRecall([section], "q", exclude_ids=("x",)))

    assert engine.watch.requests("beliefs") == [BeliefsRequest(reach=expected, limit=5)]


async def test_all_sections_are_read_at_the_same_time(engine: WatchedEngine) -> None:
    everyone_in = asyncio.Barrier(4)

    async def fetch(request: FetchRequest) -> FetchPage:
        await everyone_in.wait()
        return FetchPage()

    async def recall(request: RecallRequest) -> RecallAnswer:
        await everyone_in.wait()
        return RecallAnswer(answer="")

    async def listed(request: ListRequest) -> ListPage:
        await everyone_in.wait()
        return ListPage()

    async def beliefs(request: BeliefsRequest) -> list[Hit]:
        await everyone_in.wait()
        return []

    engine.watch.answers.update(fetch=fetch, recall=recall, list=listed, beliefs=beliefs)
    sections = [
        ScopeSection("A", DOCUMENTS),
        ScopeSection("B", TALKS, query=Answer("why?")),
        ScopeSection("C", LEARNINGS, query=Latest()),
    ]

    async with asyncio.timeout(10):
        pack = await holistic_recall(engine, HolisticRecall(sections, "q"))

    assert pack.skipped == [SkippedSection(heading=name, reason="empty") for name in "ABC"]


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (UnavailableError("no answer in 5 s"), "unavailable: no answer in 5 s"),
        (InvalidRequestError("the engine finds it odd"), "invalid request: the engine finds it odd"),
        (KeyError("the user's own words"), "engine error: an unexpected KeyError"),
        (TimeoutError(), "engine error: an unexpected TimeoutError"),
        (asyncio.CancelledError(), "engine error: an unexpected CancelledError"),
    ],
)
async def test_a_section_that_fails_is_skipped_with_the_error_and_the_others_stand(
    engine: WatchedEngine, make_hit: MakeHit, failure: BaseException, reason: str
) -> None:
    engine.watch.failures["recall"] = failure
    engine.watch.answers["fetch"] = lambda _: FetchPage(hits=[make_hit("d", "document")])

    pack = await holistic_recall(
        engine,
        HolisticRecall([ScopeSection("A", TALKS, query=Answer("?")), ScopeSection("B", DOCUMENTS)], "q"),
    )

    assert pack.skipped == [SkippedSection(heading="A", reason=reason)]
    assert pack.refs == ["d"]


async def test_an_engine_that_answers_nonsense_fails_only_its_section(engine: WatchedEngine) -> None:
    engine.watch.answers.update({"fetch": lambda _: None, "beliefs": lambda _: None})

    pack = await holistic_recall(
        engine,
        HolisticRecall([ScopeSection("A", DOCUMENTS), ScopeSection("B", LEARNINGS, query=Latest())], "q"),
    )

    assert [(skipped.heading, skipped.reason) for skipped in pack.skipped] == [
        ("A", "engine error: an unexpected AttributeError"),
        ("B", "empty"),
    ]


async def test_a_cancelled_recall_is_cancelled_and_leaves_no_read_behind(engine: WatchedEngine) -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def hang(request: FetchRequest) -> FetchPage:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return FetchPage()

    engine.watch.answers["fetch"] = hang
    call = asyncio.create_task(holistic_recall(engine, HolisticRecall([ScopeSection("A", DOCUMENTS)], "q")))
    await started.wait()
    call.cancel()

    with pytest.raises(asyncio.CancelledError):
        await call
    assert ended.is_set()


@pytest.mark.parametrize("answer", ["", " \n"])
async def test_an_answer_that_is_blank_or_cites_nothing_is_empty(
    engine: WatchedEngine, make_hit: MakeHit, answer: str
) -> None:
    answers = iter(
        [RecallAnswer(answer=answer, citations=[cited(make_hit("c"))]), RecallAnswer(answer="I do not know.")]
    )
    engine.watch.answers["recall"] = lambda _: next(answers)
    sections = [ScopeSection(name, TALKS, query=Answer("why?")) for name in "AB"]

    pack = await holistic_recall(engine, HolisticRecall(sections))

    assert [skipped.reason for skipped in pack.skipped] == ["empty", "empty"]
    assert engine.watch.requests("fetch") == []


@pytest.mark.parametrize("fails", [True, False])
async def test_a_fallback_stands_in_for_an_answer_that_fails_or_is_empty(
    engine: WatchedEngine, make_hit: MakeHit, fails: bool
) -> None:
    if fails:
        engine.watch.failures["recall"] = EngineError("the model is gone")
    engine.watch.answers["fetch"] = lambda _: FetchPage(hits=[make_hit("t", "conversation")])

    pack = await holistic_recall(
        engine, HolisticRecall([ScopeSection("A", TALKS, query=Answer("why?", fallback_to_fetch=True))])
    )

    assert pack.refs == ["t"]
    assert pack.markdown == "# Memory\n\n## A\n\n- text of t\n"


async def test_a_fallback_on_an_engine_that_ranks_nothing_lists_the_newest(
    engine: WatchedEngine, make_hit: MakeHit
) -> None:
    engine = WatchedEngine(engine.inner, descriptor=EngineDescriptor(id="x", label="X", description=""))
    engine.watch.answers["list"] = lambda _: ListPage(items=[make_hit("t", "conversation")])

    pack = await holistic_recall(
        engine, HolisticRecall([ScopeSection("A", TALKS, query=Answer("why?", fallback_to_fetch=True))])
    )

    assert pack.refs == ["t"]


async def test_the_newest_are_listed_newest_first_then_surest_then_latest_turn(
    engine: WatchedEngine, make_hit: MakeHit
) -> None:
    later = DAY + timedelta(microseconds=1)
    listed = [
        make_hit("undated"),
        make_hit("unsure", observed_at=DAY),
        make_hit("sure", observed_at=DAY, confidence=0.9),
        make_hit("early turn", observed_at=DAY, confidence=0.5, turns={"first": 1, "last": 3}),
        make_hit("late turn", observed_at=DAY, confidence=0.5, turns={"first": 2, "last": 4}),
        make_hit("early turn again", observed_at=DAY, confidence=0.5, turns={"first": 3, "last": 3}),
        make_hit("newest", observed_at=later),
        make_hit("undated but sure", confidence=0.1),
    ]
    engine.watch.answers["list"] = lambda _: ListPage(items=listed)

    pack = await holistic_recall(engine, HolisticRecall([ScopeSection("A", LEARNINGS, 20, Latest())]))

    assert pack.refs == [
        "newest",
        "sure",
        "late turn",
        "early turn",
        "early turn again",
        "unsure",
        "undated but sure",
        "undated",
    ]


async def test_the_newest_are_found_on_any_page_up_to_the_fiftieth(
    engine: WatchedEngine, make_hit: MakeHit
) -> None:
    def page(request: ListRequest) -> ListPage:
        number = int(request.cursor or 0)
        hits = [make_hit(f"{number}", "document", observed_at=DAY + timedelta(days=number))]
        return ListPage(items=hits, next_cursor=str(number + 1))

    engine.watch.answers["list"] = page

    pack = await holistic_recall(engine, HolisticRecall([ScopeSection("A", DOCUMENTS, 2, Latest())]))

    requests = engine.watch.requests("list")
    assert pack.refs == ["49", "48"]
    assert len(requests) == 50
    assert requests[0] == ListRequest(filter=DOCUMENTS, limit=100)


async def test_exclusions_go_before_the_newest_are_cut(engine: WatchedEngine, make_hit: MakeHit) -> None:
    listed = [
        make_hit(f"t{turn}", "conversation", thread_id="t", turns={"first": turn, "last": turn})
        for turn in range(100)
    ]
    engine.watch.answers["list"] = lambda _: ListPage(items=listed)

    pack = await holistic_recall(
        engine,
        HolisticRecall(
            [ScopeSection("A", TALKS, 2, Latest())],
            exclude_ids=("t9",),
            exclude_thread=ThreadWindow("t", 10),
        ),
    )

    assert pack.refs == ["t8", "t7"]


async def test_days_a_question_is_about_come_first_among_the_newest(
    engine: WatchedEngine, make_hit: MakeHit
) -> None:
    listed = [make_hit(f"{day}", "document", observed_at=DAY + timedelta(days=day)) for day in range(9)]
    engine.watch.answers["list"] = lambda _: ListPage(items=listed)
    hint = TimeHint(date(2026, 9, 16), date(2026, 9, 16))

    pack = await holistic_recall(
        engine, HolisticRecall([ScopeSection("A", DOCUMENTS, 2, Latest())], refers_to=hint)
    )

    assert pack.refs == ["1", "8"]
