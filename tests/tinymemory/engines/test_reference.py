"""The reference engine does what its description says, to the letter."""

import asyncio
from datetime import date

import pytest

from tinymemory import (
    ConsolidateRequest,
    ConsolidateStatus,
    Consolidation,
    Conversation,
    Document,
    FetchMode,
    FetchRequest,
    ForgetTarget,
    GetRequest,
    InvalidRequestError,
    ItemKind,
    Learning,
    ListRequest,
    MemoryMeta,
    MetaFilter,
    Namespace,
    Reach,
    RecallRequest,
    ReferenceEngine,
    StoreReceipt,
    TimeHint,
    WaitFor,
)


@pytest.fixture
def engine() -> ReferenceEngine:
    return ReferenceEngine()


def learning(text: str, at: str = "root", **meta: object) -> Learning:
    return Learning(text=text, meta=MemoryMeta.model_validate({"namespace": at, **meta}))


async def fill(engine: ReferenceEngine, *texts: str) -> list[StoreReceipt]:
    return [await engine.store(learning(text)) for text in texts]


async def test_a_keyword_score_is_the_share_of_the_querys_distinct_words_that_are_there(
    engine: ReferenceEngine,
) -> None:
    await fill(engine, "the night train to Graz", "the day train", "nothing of it")

    page = await engine.fetch(FetchRequest(query="Night night TRAIN, Graz Vienna", mode=FetchMode.KEYWORD))

    assert [(hit.text, hit.score) for hit in page.hits] == [
        ("the night train to Graz", 0.75),
        ("the day train", 0.25),
    ]


async def test_a_vector_score_is_a_cosine_of_at_least_two_tenths(engine: ReferenceEngine) -> None:
    await fill(engine, "prefers window seats", "prefers windows seat", "xyz")

    page = await engine.fetch(FetchRequest(query="prefers window seats", mode=FetchMode.VECTOR))

    assert [hit.text for hit in page.hits] == ["prefers window seats", "prefers windows seat"]
    assert page.hits[0].score == pytest.approx(1.0)  # pyright: ignore[reportUnknownMemberType]  # approx is untyped
    assert 0.2 <= page.hits[1].score < 1


async def test_a_hybrid_score_is_the_mean_of_the_other_two(engine: ReferenceEngine) -> None:
    await fill(engine, "prefers window seats")

    async def score(mode: FetchMode) -> float:
        return (await engine.fetch(FetchRequest(query="window seats please", mode=mode))).hits[0].score

    assert await score(FetchMode.HYBRID) == pytest.approx(  # pyright: ignore[reportUnknownMemberType]  # approx is untyped
        (await score(FetchMode.KEYWORD) + await score(FetchMode.VECTOR)) / 2
    )


async def test_pages_of_a_fetch_are_disjoint_and_together_the_ranking(engine: ReferenceEngine) -> None:
    await fill(engine, *(f"train {number}" for number in range(7)))
    request = FetchRequest(query="train", mode=FetchMode.KEYWORD, limit=3)

    first = await engine.fetch(request)
    second = await engine.fetch(request.model_copy(update={"cursor": first.next_cursor}))
    third = await engine.fetch(request.model_copy(update={"cursor": second.next_cursor}))

    assert [hit.text for page in (first, second, third) for hit in page.hits] == [
        f"train {number}" for number in range(7)
    ]
    assert third.next_cursor is None


async def test_a_listing_goes_on_where_it_was_after_what_it_showed_is_forgotten(
    engine: ReferenceEngine,
) -> None:
    receipts = await fill(engine, *"abcde")
    first = await engine.list(ListRequest(limit=2))

    await engine.forget(ForgetTarget.ids([receipt.id for receipt in receipts[:2]]))
    rest = await engine.list(ListRequest(limit=9, cursor=first.next_cursor))

    assert [hit.text for hit in rest.items] == ["c", "d", "e"]
    assert rest.next_cursor is None


@pytest.mark.parametrize(
    "cursor", ["", "0", "-1", "list-0", "list-01", "list-g", "list-1\n", "fetch-1 ", "e30"]
)
async def test_a_cursor_it_did_not_hand_out_is_refused(engine: ReferenceEngine, cursor: str) -> None:
    await fill(engine, "a", "b")

    with pytest.raises(InvalidRequestError, match="cursor"):
        await engine.list(ListRequest(cursor=cursor))
    with pytest.raises(InvalidRequestError, match="cursor"):
        await engine.fetch(FetchRequest(query="a", cursor=cursor))


async def test_a_cursor_of_the_other_operation_is_refused(engine: ReferenceEngine) -> None:
    await fill(engine, "train a", "train b")
    listed = (await engine.list(ListRequest(limit=1))).next_cursor
    fetched = (await engine.fetch(FetchRequest(query="train", limit=1))).next_cursor

    with pytest.raises(InvalidRequestError, match="cursor"):
        await engine.list(ListRequest(cursor=fetched))
    with pytest.raises(InvalidRequestError, match="cursor"):
        await engine.fetch(FetchRequest(query="train", cursor=listed))


async def test_recall_quotes_and_cites_its_best_hybrid_hits(engine: ReferenceEngine) -> None:
    await fill(engine, "the train leaves at nine", "soup of the day", "the train is red")

    answer = await engine.recall(RecallRequest(question="when does the train leave", limit=1))

    assert "the train leaves at nine" in answer.answer
    assert [citation.snippet for citation in answer.citations] == ["the train leaves at nine"]
    assert [hit.id for hit in await engine.get(GetRequest(ids=(answer.citations[0].id,)))] == [
        answer.citations[0].id
    ]


async def test_recall_with_nothing_to_quote_says_so_and_cites_nothing(engine: ReferenceEngine) -> None:
    answer = await engine.recall(RecallRequest(question="when does the train leave"))

    assert answer.answer == "Nothing stored answers this."
    assert answer.citations == []


async def test_a_time_hint_puts_the_hinted_days_first_and_drops_nothing(engine: ReferenceEngine) -> None:
    await engine.store(learning("train train", observed_at="2026-03-01T10:00:00Z"))
    await engine.store(learning("train seldom", observed_at="2026-03-02T10:00:00Z"))
    hint = TimeHint(date(2026, 3, 2), date(2026, 3, 2))

    page = await engine.fetch(FetchRequest(query="train train", refers_to=hint))
    answer = await engine.recall(RecallRequest(question="train train", refers_to=hint))

    assert [hit.text for hit in page.hits] == ["train seldom", "train train"]
    assert [citation.snippet for citation in answer.citations] == ["train seldom", "train train"]


async def test_a_build_keeps_the_first_sentence_of_each_document_and_conversation(
    engine: ReferenceEngine,
) -> None:
    document = Document.model_validate(
        {
            "title": "Refunds",
            "body": "# Refund policy\n\nRefunds take\nfive days. Then they lapse.",
            "meta": {"namespace": "team:acme/source:pdf"},
        }
    )
    talk = Conversation.model_validate(
        {
            "turns": [
                {"role": "assistant", "text": "Hello. How can I help?"},
                {"role": "user", "text": "Is 3.5 enough? I think so."},
            ],
            "meta": {"namespace": "team:acme/agent:a"},
        }
    )
    sources = [(await engine.store(item)).id for item in (document, talk, learning("kept. as is"))]

    receipt = await engine.consolidate(ConsolidateRequest(reach=Reach.subtree("team:acme")))

    built = await engine.list(ListRequest(filter=MetaFilter(tags_any=("consolidated",))))
    assert (receipt.status, receipt.scopes, receipt.built) == (ConsolidateStatus.COMPLETED, 2, 2)
    assert [(hit.text, hit.kind, hit.confidence, str(hit.meta.namespace)) for hit in built.items] == [
        ("Refunds take five days.", ItemKind.LEARNING, 0.5, "team:acme/source:pdf"),
        ("Is 3.5 enough?", ItemKind.LEARNING, 0.5, "team:acme/agent:a"),
    ]
    stored = await engine.store(
        Learning(
            text="Is 3.5 enough?",
            confidence=0.5,
            evidence=sources[1],
            meta=MemoryMeta(namespace=Namespace.parse("team:acme/agent:a"), tags=("consolidated",)),
        )
    )
    assert stored.replayed


async def test_a_second_build_is_a_replay(engine: ReferenceEngine) -> None:
    await engine.store(Document.model_validate({"body": "One sentence. Two."}))
    request = ConsolidateRequest(reach=Reach.subtree(Namespace.ROOT))

    first = await engine.consolidate(request)
    second = await engine.consolidate(request)

    assert (first.built, second.built) == (1, 0)
    assert len((await engine.list(ListRequest())).items) == 2


async def test_a_build_reads_the_kinds_and_the_reach_it_is_asked_for(engine: ReferenceEngine) -> None:
    await engine.store(Document.model_validate({"body": "A page.", "meta": {"namespace": "team:acme"}}))
    await engine.store(Document.model_validate({"body": "Theirs.", "meta": {"namespace": "team:other"}}))

    nothing = await engine.consolidate(
        ConsolidateRequest(reach=Reach.subtree("team:acme"), kinds=(ItemKind.CONVERSATION,))
    )
    one = await engine.consolidate(ConsolidateRequest(reach=Reach.subtree("team:acme")))

    assert (nothing.built, one.built) == (0, 1)


async def test_a_built_sentence_has_at_most_240_characters(engine: ReferenceEngine) -> None:
    await engine.store(Document.model_validate({"body": "word " * 200}))

    await engine.consolidate(ConsolidateRequest(reach=Reach()))

    (built,) = (await engine.list(ListRequest(filter=MetaFilter(kinds=(ItemKind.LEARNING,))))).items
    assert 230 <= len(built.text) <= 240


async def test_what_was_built_from_an_item_is_forgotten_with_it(engine: ReferenceEngine) -> None:
    receipt = await engine.store(Document.model_validate({"body": "One sentence."}))
    await engine.consolidate(ConsolidateRequest(reach=Reach()))

    report = await engine.forget(ForgetTarget.ids([receipt.id, receipt.id, "unknown"]))

    assert report.forgotten == 1
    assert (await engine.list(ListRequest())).items == []


async def test_an_item_that_asks_for_it_has_nothing_derived_from_it(engine: ReferenceEngine) -> None:
    await engine.store(Document.model_validate({"body": "A page.", "meta": {"derive": False}}))

    assert (await engine.consolidate(ConsolidateRequest(reach=Reach()))).built == 0


async def test_a_hundred_stores_at_once_keep_one_copy(engine: ReferenceEngine) -> None:
    receipts = await asyncio.gather(
        *(engine.store_with(learning("same"), wait=WaitFor.ACCEPTED) for _ in range(100))
    )

    assert sum(not receipt.replayed for receipt in receipts) == 1


def test_its_descriptor_says_three_modes_and_builds_on_demand(engine: ReferenceEngine) -> None:
    assert engine.descriptor.fetch_modes == (FetchMode.KEYWORD, FetchMode.VECTOR, FetchMode.HYBRID)
    assert engine.descriptor.consolidation is Consolidation.ON_DEMAND
