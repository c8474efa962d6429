"""context.md: what it says, that it counts itself, and what goes when it does not fit."""

import logging
from datetime import UTC, datetime

import pytest

from tinymemory import (
    BeliefsRequest,
    Brief,
    Citation,
    ContextDoc,
    ContextSpec,
    Hit,
    InvalidRequestError,
    ItemKind,
    Learning,
    MemoryMeta,
    MetaFilter,
    Namespace,
    Reach,
    RecallAnswer,
    RecallRequest,
    ReferenceEngine,
    UnavailableError,
    compile_context,
)

AT = datetime(2026, 9, 15, 9, 1, tzinfo=UTC)
BRIEFS = (
    Brief(heading="Who", question="Who is it?"),
    Brief(heading="What", question="What is going on?"),
)
WHO, WHAT = "a" * 40, "b" * 40


def cited(id_: str) -> Citation:
    return Citation(id=id_, kind=ItemKind.LEARNING, snippet="s", meta=MemoryMeta())


class Scripted(ReferenceEngine):
    """Answers by question, believes what it is told, and keeps what it was asked."""

    def __init__(self, answers: dict[str, RecallAnswer | Exception], beliefs: tuple[Hit, ...] = ()) -> None:
        super().__init__()
        self.answers = answers
        self.believed = beliefs
        self.asked: list[RecallRequest] = []
        self.belief_requests: list[BeliefsRequest] = []

    async def recall(self, request: RecallRequest) -> RecallAnswer:
        self.asked.append(request)
        answer = self.answers[request.question]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def beliefs(self, request: BeliefsRequest) -> list[Hit]:
        self.belief_requests.append(request)
        return list(self.believed)


def answering(who: str = "Ann, a pilot.", what: str = "A trip to Graz.") -> Scripted:
    return Scripted(
        {
            "Who is it?": RecallAnswer(answer=who, citations=[cited(WHO)]),
            "What is going on?": RecallAnswer(answer=what, citations=[cited(WHO), cited(WHAT)]),
        }
    )


async def learn(engine: ReferenceEngine, *texts: str, at: str = "root") -> list[str]:
    meta = MemoryMeta(namespace=Namespace.parse(at))
    return [(await engine.store(Learning(text=text, meta=meta))).id for text in texts]


async def test_the_document_reads_as_it_should_to_the_letter() -> None:
    engine = answering()
    (learnt,) = await learn(engine, "likes  window\nseats")

    doc = await compile_context(engine, ContextSpec(briefs=BRIEFS), at=AT)

    assert doc.markdown == (
        "---\n"
        "generated_at: 2026-09-15T09:01:00Z\n"
        "engine: reference\n"
        f"tokens: {doc.tokens}\n"
        f"refs: [{WHO}, {WHAT}, {learnt}]\n"
        "---\n"
        "\n"
        "# Memory\n"
        "\n## Who\n\nAnn, a pilot.\n"
        "\n## What\n\nA trip to Graz.\n"
        "\n## Learnings\n\n- likes window seats\n"
    )
    assert doc == ContextDoc(
        markdown=doc.markdown,
        tokens=doc.tokens,
        generated_at=AT,
        engine="reference",
        refs=[WHO, WHAT, learnt],
    )


async def test_the_token_count_is_exact_and_counts_itself_at_every_length() -> None:
    for length in [*range(1, 60), *range(3600, 3720)]:
        spec = ContextSpec(briefs=BRIEFS, budget_tokens=10_000)
        doc = await compile_context(answering(what="x" * length), spec, at=AT)

        assert doc.tokens == -(-len(doc.markdown) // 4)
        assert f"\ntokens: {doc.tokens}\n" in doc.markdown


async def test_an_empty_engine_gives_an_empty_document() -> None:
    doc = await compile_context(ReferenceEngine(), ContextSpec(), at=AT)

    assert (doc.markdown, doc.tokens, doc.refs) == ("", 0, [])
    assert doc.generated_at == AT


async def test_a_failing_brief_is_left_out_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    engine = answering()
    engine.answers["Who is it?"] = UnavailableError("no answer in time")

    with caplog.at_level(logging.WARNING, logger="tinymemory.context"):
        doc = await compile_context(engine, ContextSpec(briefs=BRIEFS), at=AT)

    assert "## Who" not in doc.markdown
    assert "## What" in doc.markdown
    (record,) = caplog.records
    assert record.message == "context_section_failed"
    assert record.__dict__["heading"] == "Who"
    assert record.__dict__["reason"] == "unavailable: no answer in time"


async def test_an_answer_that_is_blank_or_cites_nothing_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    engine = answering(who=" \n")
    engine.answers["What is going on?"] = RecallAnswer(answer="I do not know.")

    doc = await compile_context(engine, ContextSpec(briefs=BRIEFS), at=AT)

    assert doc.markdown == ""
    assert caplog.records == []


async def test_learnings_are_newest_and_then_most_confident_first() -> None:
    engine = answering()
    for text, at, confidence in (
        ("undated", None, 1.0),
        ("older", "2026-01-01T00:00:00Z", 1.0),
        ("unsure", "2026-02-01T00:00:00Z", 0.2),
        ("sure", "2026-02-01T00:00:00Z", 0.9),
    ):
        meta = MemoryMeta.model_validate({"observed_at": at})
        await engine.store(Learning(text=text, confidence=confidence, meta=meta))

    doc = await compile_context(engine, ContextSpec(briefs=()), at=AT)

    assert doc.markdown.endswith("## Learnings\n\n- sure\n- unsure\n- older\n- undated\n")


async def test_beliefs_are_interleaved_with_learnings_stored_first() -> None:
    believed = tuple(
        Hit(id=f"belief-{n}", kind=ItemKind.LEARNING, text=f"belief {n}", meta=MemoryMeta(tags=("belief",)))
        for n in range(2)
    )
    engine = Scripted({}, believed)
    await learn(engine, "stored 0", "stored 1", "stored 2")

    doc = await compile_context(engine, ContextSpec(briefs=(), learnings_limit=4), at=AT)

    assert doc.markdown.endswith("- stored 0\n- belief 0\n- stored 1\n- belief 1\n")
    assert [request.reach for request in engine.belief_requests] == [Reach.subtree(Namespace.ROOT)]


async def test_the_specs_reach_goes_over_the_briefs_and_confines_the_learnings() -> None:
    engine = answering()
    await learn(engine, "ours", at="team:acme")
    await learn(engine, "theirs", at="team:other")
    reach = Reach.subtree("team:acme")
    briefs = (
        Brief(
            heading="Who",
            question="Who is it?",
            filter=MetaFilter(reach=Reach.subtree("team:other"), kinds=(ItemKind.DOCUMENT,)),
        ),
    )

    doc = await compile_context(engine, ContextSpec(briefs=briefs, reach=reach), at=AT)

    assert [asked.filter for asked in engine.asked] == [MetaFilter(reach=reach, kinds=(ItemKind.DOCUMENT,))]
    assert [request.reach for request in engine.belief_requests] == [reach]
    assert doc.markdown.endswith("## Learnings\n\n- ours\n")


async def test_a_brief_asks_for_eight_citations_at_the_most() -> None:
    engine = answering()

    await compile_context(engine, ContextSpec(briefs=BRIEFS), at=AT)

    assert [asked.limit for asked in engine.asked] == [8, 8]


async def test_learnings_go_first_from_the_end_and_then_the_last_brief() -> None:
    engine = answering(who="The pilot is Ann. " * 6, what="A trip is planned to Graz. " * 6)
    await learn(engine, *(f"learning {number}" for number in range(5)))
    shapes: list[tuple[int, bool, bool, bool]] = []
    for budget in range(400, 0, -1):
        doc = await compile_context(engine, ContextSpec(briefs=BRIEFS, budget_tokens=budget), at=AT)
        assert doc.tokens <= budget
        assert doc.tokens == -(-len(doc.markdown) // 4)
        text = doc.markdown
        shapes.append((text.count("\n- "), "Graz. A trip" in text, "## What" in text, "## Who" in text))
        assert ("## Learnings" in text) == ("\n- " in text)
        assert [f"learning {n}" in text for n in range(text.count("\n- "))] == [True] * text.count("\n- ")

    # Each step only ever takes away, in this order: learnings, the last brief, the first brief.
    assert list(dict.fromkeys(bullets for bullets, *_ in shapes)) == [5, 4, 3, 2, 1, 0]
    assert all(what for bullets, _, what, _ in shapes if bullets > 0)
    assert all(who for *_, what, who in shapes if what)
    assert shapes[0] == (5, True, True, True)
    assert shapes[-1] == (0, False, False, False)


async def test_a_shortened_brief_ends_in_an_ellipsis() -> None:
    engine = answering(what="A trip is planned to Graz. " * 20)

    doc = await compile_context(engine, ContextSpec(briefs=BRIEFS, budget_tokens=120), at=AT)

    assert doc.tokens <= 120
    assert doc.markdown.endswith("…\n")


async def test_what_is_trimmed_is_not_among_the_refs() -> None:
    engine = answering()
    ids = await learn(engine, *(f"learning {number}" for number in range(9)))

    doc = await compile_context(engine, ContextSpec(briefs=BRIEFS, budget_tokens=160), at=AT)

    shown = doc.markdown.count("\n- ")
    assert 0 < shown < 9
    assert doc.refs == [WHO, WHAT, *ids[:shown]]


async def test_no_learnings_are_listed_when_none_are_asked_for() -> None:
    engine = answering()
    await learn(engine, "likes window seats")

    doc = await compile_context(engine, ContextSpec(briefs=BRIEFS, learnings_limit=0), at=AT)

    assert "Learnings" not in doc.markdown


def test_there_are_four_briefs_by_default() -> None:
    assert [brief.heading for brief in ContextSpec().briefs] == [
        "About the user",
        "Active work",
        "Preferences and standing instructions",
        "Recent important events",
    ]
    assert ContextSpec() == ContextSpec(budget_tokens=1500, learnings_limit=20, reach=None)


@pytest.mark.parametrize(
    "spec",
    [
        ContextSpec(budget_tokens=0),
        ContextSpec(learnings_limit=-1),
        ContextSpec(briefs=(Brief(heading=" ", question="x"),)),
        ContextSpec(briefs=(Brief(heading="x", question=""),)),
    ],
)
async def test_a_malformed_spec_is_refused(spec: ContextSpec) -> None:
    with pytest.raises(InvalidRequestError):
        await compile_context(ReferenceEngine(), spec)


async def test_a_naive_time_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="aware"):
        await compile_context(ReferenceEngine(), ContextSpec(), at=datetime(2026, 9, 15))  # noqa: DTZ001  # naive is the point


async def test_without_a_time_it_is_made_now() -> None:
    before = datetime.now(UTC).replace(microsecond=0)

    doc = await compile_context(ReferenceEngine(), ContextSpec())

    assert before <= doc.generated_at <= datetime.now(UTC)
