"""What the embedded engine does beyond what every engine promises."""

import asyncio
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tinymemory import (
    Conversation,
    Document,
    DocumentBody,
    ExploreRequest,
    Facet,
    FetchMode,
    FetchRequest,
    ForgetTarget,
    GetRequest,
    HolisticRecall,
    InvalidRequestError,
    Latest,
    Learning,
    ListRequest,
    MemoryMeta,
    MetaFilter,
    RecallRequest,
    ScopeSection,
    SqliteEngine,
    TimeHint,
    WaitFor,
    holistic_recall,
)
from tinymemory.engines.sqlite.engine import NEWEST_AT_ONCE


def learning(text: str, **meta: object) -> Learning:
    return Learning(text=text, meta=MemoryMeta.model_validate(meta))


def turn(thread: str, index: int, text: str, role: str = "user", at: str | None = None) -> Conversation:
    meta = {"thread_id": thread, "turns": {"first": index, "last": index}, "observed_at": at}
    return Conversation.model_validate({"turns": [{"role": role, "text": text, "at": at}], "meta": meta})


async def found(engine: SqliteEngine, query: str, mode: FetchMode = FetchMode.KEYWORD) -> list[str]:
    page = await engine.fetch(FetchRequest(query=query, mode=mode))
    return [hit.text for hit in page.hits]


async def test_what_is_stored_is_there_for_the_next_engine_on_the_file(path: Path) -> None:
    async with SqliteEngine(path) as first:
        receipt = await first.store(learning("prefers window seats"))

    async with SqliteEngine(path) as second:
        (hit,) = await second.get(GetRequest(ids=(receipt.id,)))
        again = await second.store(learning("prefers window seats"))

    assert hit.text == "prefers window seats"
    assert again.replayed


async def test_an_engine_serves_several_event_loops_in_turn(path: Path) -> None:
    engine = SqliteEngine(path)

    def ask() -> list[str]:
        async def call() -> list[str]:
            await engine.store(learning("the train to Graz"))
            return await found(engine, "train", FetchMode.HYBRID)

        return asyncio.run(call())

    answers = [await asyncio.to_thread(ask) for _ in range(3)]
    await engine.aclose()
    await engine.aclose()

    assert answers == [["the train to Graz"]] * 3


async def test_the_event_loop_runs_on_while_a_write_waits_for_another_programs(path: Path) -> None:
    async with SqliteEngine(path) as engine:
        await engine.store(learning("first"))
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")

        waiting = asyncio.create_task(engine.store(learning("second")))
        ticks = 0
        while ticks < 20:
            await asyncio.sleep(0.005)
            ticks += 1
        assert not waiting.done()
        other.execute("COMMIT")
        other.close()

        assert not (await waiting).replayed


@pytest.mark.parametrize(
    "query", ['"', "a AND", "NEAR(x", "* -", "col:x OR", "it's", "\0", "'; DROP", "(", "^a", "{x}"]
)
@pytest.mark.parametrize("mode", list(FetchMode))
async def test_no_query_is_syntax(engine: SqliteEngine, query: str, mode: FetchMode) -> None:
    await engine.store(learning("nothing of the kind"))

    await engine.fetch(FetchRequest(query=query, mode=mode))


async def test_any_word_of_a_query_finds_and_inflections_meet(engine: SqliteEngine) -> None:
    await engine.store(learning("Caroline's painting classes"))
    await engine.store(learning("an umbrella"))

    assert await found(engine, "Did Caroline paint?") == ["Caroline's painting classes"]
    assert await found(engine, "umbrellas or parasols") == ["an umbrella"]
    assert await found(engine, "CAFÉ") == []


async def test_accents_and_case_do_not_keep_words_apart(engine: SqliteEngine) -> None:
    await engine.store(learning("Das Café an der Straße"))

    assert await found(engine, "cafe") == ["Das Café an der Straße"]


async def test_languages_without_spaces_are_found_by_a_part(engine: SqliteEngine) -> None:
    await engine.store(learning("私は東京に住んでいます"))
    await engine.store(learning("京都の東"))

    assert await found(engine, "東京") == ["私は東京に住んでいます"]


async def test_a_vector_fetch_finds_a_misspelt_word(engine: SqliteEngine) -> None:
    await engine.store(learning("the refrigerator is broken"))
    await engine.store(learning("lunch at noon"))

    assert await found(engine, "refridgerator", FetchMode.VECTOR) == ["the refrigerator is broken"]
    assert await found(engine, "refridgerator") == []
    assert await found(engine, "refridgerator", FetchMode.HYBRID) == ["the refrigerator is broken"]


async def test_an_answer_is_found_by_the_words_of_the_turn_before_it(engine: SqliteEngine) -> None:
    await engine.store(turn("t", 0, "Where did you spend the holidays?"))
    await engine.store(turn("t", 1, "In Lisbon, with my sister.", role="assistant"))
    await engine.store(turn("other", 5, "Lunch was good."))

    texts = await found(engine, "holidays", FetchMode.HYBRID)

    assert texts == ["user: Where did you spend the holidays?", "assistant: In Lisbon, with my sister."]


async def test_a_time_hint_lifts_its_days_and_drops_nothing(engine: SqliteEngine) -> None:
    for day in (1, 2, 3):
        await engine.store(learning(f"rain on day {day}", observed_at=f"2026-05-0{day}T12:00:00Z"))

    page = await engine.fetch(
        FetchRequest(query="rain", mode=FetchMode.KEYWORD, refers_to=TimeHint("2026-05-03", "2026-05-03"))  # pyright: ignore[reportArgumentType]  # days may be texts
    )

    assert [hit.text for hit in page.hits] == ["rain on day 3", "rain on day 1", "rain on day 2"]


async def test_the_newest_of_more_than_a_listing_is_read_for_are_found(engine: SqliteEngine) -> None:
    day = datetime(2026, 1, 1, tzinfo=UTC)
    turns = [
        turn("t", index, f"turn {index}", at=(day + timedelta(minutes=index)).isoformat())
        for index in range(5100)
    ]
    for start in range(0, len(turns), 100):
        await engine.store_many(turns[start : start + 100])

    request = HolisticRecall([ScopeSection("Talk", MetaFilter(), 2, Latest())])
    pack = await holistic_recall(engine, request)

    assert pack.refs == [turns[5099].fingerprint(), turns[5098].fingerprint()]


async def test_what_is_forgotten_while_the_newest_are_read_is_left_out(engine: SqliteEngine) -> None:
    receipts = [await engine.store(learning(f"item {number:03}")) for number in range(NEWEST_AT_ONCE + 2)]

    texts: list[str] = []
    async for hit in engine.newest(MetaFilter()):
        if not texts:
            await engine.forget(ForgetTarget.ids([receipts[-2].id]))
        texts.append(hit.text)

    assert texts == [f"item {number:03}" for number in (*range(NEWEST_AT_ONCE), NEWEST_AT_ONCE + 1)]


async def test_a_listing_neither_skips_nor_repeats_while_others_write(engine: SqliteEngine) -> None:
    receipts = [await engine.store(learning(f"item {n}")) for n in range(6)]

    first = await engine.list(ListRequest(limit=2))
    await engine.forget(ForgetTarget.ids([receipts[1].id, receipts[2].id]))
    await engine.store(learning("late"))
    second = await engine.list(ListRequest(limit=2, cursor=first.next_cursor))
    third = await engine.list(ListRequest(limit=2, cursor=second.next_cursor))

    texts = [hit.text for page in (first, second, third) for hit in page.items]
    assert texts == ["item 0", "item 1", "item 3", "item 4", "item 5", "late"]
    assert third.next_cursor is None


async def test_a_fetch_pages_through_all_hits_of_its_first_moment(engine: SqliteEngine) -> None:
    for n in range(7):
        await engine.store(learning(f"apple {n}"))

    texts: list[str] = []
    cursor: str | None = None
    while True:
        page = await engine.fetch(FetchRequest(query="apple", limit=3, cursor=cursor))
        texts += [hit.text for hit in page.hits]
        await engine.store(learning(f"apple apple apple {len(texts)}"))
        cursor = page.next_cursor
        if cursor is None:
            break

    assert sorted(texts) == [f"apple {n}" for n in range(7)]


@pytest.mark.parametrize(
    "cursor", ["", "x", "list-1", "list-1-00000000", "fetch-1-1-00000000", "list-zz-1", "-" * 99]
)
async def test_a_cursor_of_nobodys_making_is_refused(engine: SqliteEngine, cursor: str) -> None:
    with pytest.raises(InvalidRequestError, match="cursor"):
        await engine.list(ListRequest(cursor=cursor))
    with pytest.raises(InvalidRequestError, match="cursor"):
        await engine.fetch(FetchRequest(query="x", cursor=cursor))


async def test_a_cursor_of_a_listing_is_none_of_a_fetch(engine: SqliteEngine) -> None:
    await engine.store_many([learning("one"), learning("two")])
    page = await engine.list(ListRequest(limit=1))

    with pytest.raises(InvalidRequestError, match="fetch"):
        await engine.fetch(FetchRequest(query="x", cursor=page.next_cursor))


async def test_a_batch_with_a_bad_item_stores_nothing(engine: SqliteEngine) -> None:
    with pytest.raises(InvalidRequestError):
        await engine.store_many([learning("good"), learning(" ")])

    assert (await engine.list(ListRequest())).items == []


async def test_a_batch_names_its_own_repetitions_replays(engine: SqliteEngine) -> None:
    receipts = await engine.store_many([learning("a"), learning("b"), learning("a")])

    assert [receipt.replayed for receipt in receipts] == [False, False, True]
    assert len((await engine.list(ListRequest())).items) == 2


async def test_stores_of_one_item_at_once_make_one_row(engine: SqliteEngine) -> None:
    receipts = await asyncio.gather(*(engine.store(learning("same")) for _ in range(20)))

    assert sum(not receipt.replayed for receipt in receipts) == 1


async def test_an_accepted_item_is_found_at_once(engine: SqliteEngine) -> None:
    await engine.store_with(learning("quick"), WaitFor.ACCEPTED)

    for mode in FetchMode:
        assert await found(engine, "quick", mode) == ["quick"]


async def test_what_is_forgotten_leaves_no_word_in_the_file(engine: SqliteEngine, path: Path) -> None:
    receipt = await engine.store(learning("the password is xylophone42"))
    await engine.forget(ForgetTarget.ids([receipt.id]))

    for mode in FetchMode:
        assert await found(engine, "xylophone42", mode) == []
    await engine.aclose()
    assert b"xylophone42" not in await asyncio.to_thread(path.read_bytes)


async def test_counting_stops_at_the_scan_limit(engine: SqliteEngine) -> None:
    for n in range(5):
        await engine.store(learning(f"n{n}", tags=["x", f"t{n}"], language="en" if n else None))

    page = await engine.explore(ExploreRequest(facet=Facet.TAG, scan_limit=3, limit=2))
    language = await engine.explore(ExploreRequest(facet=Facet.LANGUAGE))

    assert [(bucket.value, bucket.count) for bucket in page.buckets] == [("x", 3), ("t0", 1)]
    assert (page.total, page.missing, page.more_buckets, page.truncated) == (3, 0, True, True)
    assert (language.total, language.missing, language.truncated) == (5, 1, False)


async def test_recall_quotes_with_dates_and_cites_what_it_quotes(engine: SqliteEngine) -> None:
    await engine.store(learning("The launch is on 5 May.", observed_at="2026-04-01T09:00:00Z"))

    told = await engine.recall(RecallRequest(question="When is the launch?"))
    nothing = await engine.recall(RecallRequest(question="Zebras?"))

    assert told.answer == "[2026-04-01] The launch is on 5 May."
    (citation,) = told.citations
    assert [hit.text for hit in await engine.get(GetRequest(ids=(citation.id,)))] == [
        "The launch is on 5 May."
    ]
    assert nothing.citations == []
    assert nothing.answer == "Nothing stored answers this."


async def test_recall_quotes_the_passage_of_a_long_text_that_answers(engine: SqliteEngine) -> None:
    filler = " ".join(f"Paragraph {n} speaks of other matters entirely." for n in range(30))
    await engine.store(
        Document(title="Guide", body=DocumentBody(text=f"{filler} Refunds take five days. {filler}"))
    )

    told = await engine.recall(RecallRequest(question="How long do refunds take?"))

    assert "Refunds take five days." in told.citations[0].snippet
    assert len(told.citations[0].snippet) <= 401


async def test_a_filter_by_path_reads_no_wildcards(engine: SqliteEngine) -> None:
    await engine.store(learning("one", file_path="/a_b/x%.md"))
    await engine.store(learning("two", file_path="/aXb/xy.md"))

    page = await engine.list(ListRequest(filter=MetaFilter(file_path="/a_b")))

    assert [hit.text for hit in page.items] == ["one"]


async def test_a_filter_by_path_takes_what_matches_and_no_neighbour(engine: SqliteEngine) -> None:
    for path in ("/a", "/a/", "/a/b", "/a-b", "/a.md", "/a0", "/A/b"):
        await engine.store(learning(f"at {path}", file_path=path))

    for prefix in ("/a", "/a/"):
        page = await engine.list(ListRequest(filter=MetaFilter(file_path=prefix)))

        assert [hit.text for hit in page.items] == ["at /a", "at /a/", "at /a/b"]


async def test_hashed_vectors_find_what_is_misspelt_where_words_find_little(engine: SqliteEngine) -> None:
    await engine.store_many([learning(f"parcel number {number} is late") for number in range(80)])
    await engine.store(learning("the refund policy"))

    late = await engine.fetch(FetchRequest(query="late refnd polcy", mode=FetchMode.HYBRID, limit=100))
    misspelt = await found(engine, "refnd polcy", FetchMode.HYBRID)

    assert len(late.hits) == 80
    assert misspelt[0] == "the refund policy"


async def test_turns_keep_their_time_and_tools(engine: SqliteEngine) -> None:
    item = Conversation.model_validate(
        {
            "turns": [
                {
                    "role": "user",
                    "text": "hi there",
                    "at": "2026-01-01T00:00:00Z",
                    "tool_calls": [{"name": "x", "id": "1"}],
                }
            ]
        }
    )
    receipt = await engine.store(item)

    (hit,) = await engine.get(GetRequest(ids=(receipt.id,)))

    assert hit.text == item.render_text() == "user: hi there [tools: x (1)]"


class Fractions:
    """An embedder whose numbers are no floats, as those of array libraries are not."""

    id = "fractions"
    dimensions = 8

    async def embed(self, texts: Sequence[str]) -> list[list[Any]]:
        return [[Fraction(1 + (ord(text[0]) + lane) % 7, 7) for lane in range(8)] for text in texts]


async def test_an_embedders_numbers_may_be_of_any_class_of_real_numbers(path: Path) -> None:
    async with SqliteEngine(path, embedder=Fractions()) as engine:
        await engine.store(learning("apples are red"))

        assert await found(engine, "apples", FetchMode.VECTOR) == ["apples are red"]
