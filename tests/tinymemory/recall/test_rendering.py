"""How a pack reads, and how it is made to fit its budget."""

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinymemory import (
    Answer,
    Citation,
    ContextPack,
    FetchPage,
    Hit,
    HolisticRecall,
    ItemKind,
    MemoryMeta,
    MetaFilter,
    PackSection,
    RecallAnswer,
    RecallRequest,
    ReferenceEngine,
    ScopeSection,
    holistic_recall,
)
from tinymemory.recall.rendering import bullet
from tinymemory.testing.watched import WatchedEngine

MakeHit = Callable[..., Hit]
TALKS = MetaFilter(kinds=(ItemKind.CONVERSATION,))
AT = datetime(2026, 9, 15, 11, 1, 59, tzinfo=timezone(timedelta(hours=2)))

Body = str | list[str]
"""An answer's text, or the texts of bullets."""


async def render(*bodies: Body, budget: int = 10_000, title: str = "Memory") -> ContextPack:
    """A pack of sections `S0`, `S1` and so on; bullets have ids `0.0`, `0.1`, an answer cites `a0`."""
    engine = WatchedEngine(ReferenceEngine())

    def hit(id_: str, text: str) -> Hit:
        return Hit(id=id_, kind=ItemKind.LEARNING, text=text, meta=MemoryMeta())

    def answer(request: RecallRequest) -> RecallAnswer:
        number = int(request.question)
        body = bodies[number]
        assert isinstance(body, str)
        citation = Citation(id=f"a{number}", kind=ItemKind.LEARNING, snippet="", meta=MemoryMeta())
        return RecallAnswer(answer=body, citations=[citation])

    pages = {
        MetaFilter(source_id=str(number), kinds=(ItemKind.DOCUMENT,)): FetchPage(
            hits=[hit(f"{number}.{index}", text) for index, text in enumerate(body)]
        )
        for number, body in enumerate(bodies)
        if isinstance(body, list)
    }
    engine.watch.answers.update(recall=answer, fetch=lambda request: pages[request.filter])
    sections = [
        ScopeSection(f"S{number}", query=Answer(str(number)))
        if isinstance(body, str)
        else ScopeSection(
            f"S{number}",
            MetaFilter(source_id=str(number), kinds=(ItemKind.DOCUMENT,)),
            max(len(body), 1),
        )
        for number, body in enumerate(bodies)
    ]
    return await holistic_recall(engine, HolisticRecall(sections, "q", budget_tokens=budget, title=title))


async def test_a_pack_is_a_title_then_headings_with_bullets_or_an_answer() -> None:
    pack = await render(["one", "two"], "The answer.\nIn two lines.", ["three"], title="What I know")

    assert pack.markdown == (
        "# What I know\n\n## S0\n\n- one\n- two\n\n## S1\n\nThe answer.\nIn two lines.\n\n## S2\n\n- three\n"
    )
    assert pack.tokens == math.ceil(len(pack.markdown) / 4)
    assert pack.refs == ["0.0", "0.1", "a1", "2.0"]
    assert pack.sections == [
        PackSection(heading="S0", refs=["0.0", "0.1"]),
        PackSection(heading="S1", refs=["a1"]),
        PackSection(heading="S2", refs=["2.0"]),
    ]
    assert ContextPack.model_validate_json(pack.model_dump_json()) == pack


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("  two\n\n lines\t\u2003here ", "two lines here"),
        ("unit\x1fseparator stays", "unit\x1fseparator stays"),
        ("# no heading in a learning\n\nbody", "# no heading in a learning body"),
    ],
)
def test_white_space_of_a_bullet_is_collapsed(make_hit: MakeHit, text: str, line: str) -> None:
    assert bullet(make_hit("x", text=text)) == line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("# Refund policy\n\nFive days.", "Refund policy: Five days."),
        ("# Refund policy\n\n# Refund policy\n\nFive days.", "Refund policy: Five days."),
        ("# Refund policy\n\n## Refund  Policy ##\nFive days.", "Refund policy: Five days."),
        ("# Refund policy\n\nRefund policy\n=============\n\nFive days.", "Refund policy: Five days."),
        (
            "# Refund policy\n\n# Refund policy of 2024\n\nFive.",
            "Refund policy: # Refund policy of 2024 Five.",
        ),
        ("# Refund policy\n\nRefund policy applies.", "Refund policy: Refund policy applies."),
        ("# Refund policy\n\n# Refund policy", "Refund policy"),
        ("# Refund policy", "Refund policy"),
        ("#hashtag and\nbody", "#hashtag and body"),
        ("# \n\nbody", "# body"),
        ("Five days.", "Five days."),
    ],
)
def test_a_titled_document_reads_title_and_body_once(make_hit: MakeHit, text: str, line: str) -> None:
    assert bullet(make_hit("x", "document", text=text)) == line


def test_a_dated_conversation_begins_with_its_minute_in_utc(make_hit: MakeHit) -> None:
    talk = make_hit("x", "conversation", text="user: hello\nassistant: hi", observed_at=AT)

    assert bullet(talk) == "[2026-09-15 09:01] user: hello assistant: hi"
    assert bullet(make_hit("x", "conversation", text="user: hello")) == "user: hello"
    assert bullet(make_hit("x", text="a fact", observed_at=AT)) == "a fact"
    assert bullet(make_hit("x", "document", text="a text", observed_at=AT)) == "a text"


def test_the_year_of_a_date_has_four_digits(make_hit: MakeHit) -> None:
    early = make_hit("x", "conversation", text="user: salve", observed_at=datetime(476, 9, 4, tzinfo=UTC))

    assert bullet(early) == "[0476-09-04 00:00] user: salve"


def test_a_bullet_is_cut_at_600_characters_date_included(make_hit: MakeHit) -> None:
    assert bullet(make_hit("x", text="x" * 600)) == "x" * 600
    assert bullet(make_hit("x", text="x" * 601)) == "x" * 600 + "…"
    dated = bullet(make_hit("x", "conversation", text="é" * 700, observed_at=AT))
    assert dated == "[2026-09-15 09:01] " + "é" * 581 + "…"


async def test_a_title_costs_what_it_costs_even_alone() -> None:
    assert (await render(["fact"], budget=1)).markdown == ""


async def test_over_budget_bullets_go_from_the_end_and_an_emptied_section_with_its_heading() -> None:
    whole = await render(["aaaa", "bbbb"], "An answer.", ["cccc", "dddd"])
    one_less = await render(["aaaa", "bbbb"], "An answer.", ["cccc", "dddd"], budget=whole.tokens - 1)
    two_less = await render(["aaaa", "bbbb"], "An answer.", ["cccc", "dddd"], budget=one_less.tokens - 1)

    assert (
        one_less.markdown == "# Memory\n\n## S0\n\n- aaaa\n- bbbb\n\n## S1\n\nAn answer.\n\n## S2\n\n- cccc\n"
    )
    assert one_less.refs == ["0.0", "0.1", "a1", "2.0"]
    assert two_less.markdown == "# Memory\n\n## S0\n\n- aaaa\n- bbbb\n\n## S1\n\nAn answer.\n"
    assert two_less.skipped == []


async def test_answers_are_shortened_only_when_no_bullet_is_left() -> None:
    answer = "x" * 200

    pack = await render(["a" * 100] * 5, answer, budget=60)

    assert [section.heading for section in pack.sections] == ["S1"]
    # 219 characters are 55 tokens, which fits: the bullets were enough.
    assert pack.markdown == f"# Memory\n\n## S1\n\n{answer}\n"


async def test_the_last_answer_is_shortened_by_the_overflow_in_characters() -> None:
    # "# Memory\n" 9, "\n## S0\n\n" 8, "\n" 1: 218 characters, 55 tokens; over by 5, so 20 + 3 go.
    pack = await render("x" * 200, budget=50)

    assert pack.markdown == f"# Memory\n\n## S0\n\n{'x' * 177}…\n"
    assert pack.tokens == 49


async def test_a_shortened_answer_ends_at_a_word_border_when_one_is_near() -> None:
    # Cut at 177: in the words, back to the blank at 171; glued together, at 177.
    near = "x" * 171 + " " + "y" * 28
    far = "x" * 100 + " " + "y" * 99
    on_it = "x" * 177 + " " + "y" * 22

    assert "x" * 171 + "…\n" in (await render(near, budget=50)).markdown
    assert "y" * 76 + "…\n" in (await render(far, budget=50)).markdown
    assert "x" * 177 + "…\n" in (await render(on_it, budget=50)).markdown


async def test_an_answer_of_which_fewer_than_40_characters_would_stay_is_dropped() -> None:
    # 218 characters are 55 tokens.  Over by 39, 159 go and 41 stay; over by 40, 163 go and 37 would.
    kept = await render("x" * 200, budget=16)
    dropped = await render("x" * 200, budget=15)

    assert kept.markdown == f"# Memory\n\n## S0\n\n{'x' * 41}…\n"
    assert (dropped.markdown, dropped.tokens, dropped.refs, dropped.sections) == ("", 0, [], [])


async def test_forty_characters_before_the_step_back_to_a_word_are_enough() -> None:
    # 217 characters are 55 tokens; over by 39, 159 of 199 go and 40 stay.
    pack = await render("x" * 30 + " " + "y" * 168, budget=16)

    assert pack.markdown == f"# Memory\n\n## S0\n\n{'x' * 30}…\n"


async def test_when_an_answer_is_dropped_the_one_before_it_is_the_last() -> None:
    pack = await render("x" * 200, "y" * 50, budget=50)

    assert pack.markdown == f"# Memory\n\n## S0\n\n{'x' * 177}…\n"
    assert pack.refs == ["a0"]


texts = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]) | st.just(" "), min_size=1, max_size=700)
bodies = st.lists(
    texts.map(lambda text: text + ".") | st.lists(texts.map(lambda text: text + "."), max_size=5),
    max_size=5,
)


@given(bodies, st.integers(1, 900))
async def test_no_pack_is_over_its_budget_and_its_count_is_exact(bodies: list[Body], budget: int) -> None:
    pack = await render(*bodies, budget=budget)

    assert pack.tokens == math.ceil(len(pack.markdown) / 4) <= budget
    assert pack.markdown.count("\n## ") == len(pack.sections)
    assert all(section.refs for section in pack.sections)
    assert pack.refs == list(dict.fromkeys(id_ for section in pack.sections for id_ in section.refs))


@given(bodies, st.integers(1, 900))
async def test_trimming_takes_from_the_end_and_no_more_than_it_must(bodies: list[Body], budget: int) -> None:
    whole = await render(*bodies)

    pack = await render(*bodies, budget=budget)

    if whole.tokens <= budget:
        assert pack == whole
    bullets = [id_ for id_ in whole.refs if not id_.startswith("a")]
    kept = [id_ for id_ in pack.refs if not id_.startswith("a")]
    assert kept == bullets[: len(kept)]
    if kept:
        assert [id_ for id_ in pack.refs if id_.startswith("a")] == [
            id_ for id_ in whole.refs if id_.startswith("a")
        ]


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=1500), st.sampled_from(ItemKind))
def test_every_bullet_is_one_line_of_at_most_600_characters(text: str, kind: ItemKind) -> None:
    line = bullet(Hit(id="x", kind=kind, text=text, meta=MemoryMeta(observed_at=AT)))

    assert "\n" not in line
    assert len(line) <= 600 + len("…")
