"""Documents go where the layout says, once, and hand back the builds they make due."""

from typing import Any

import pytest

from tinymemory import (
    Brain,
    BrainDocument,
    BuildBeliefs,
    ConsolidateRequest,
    Conversation,
    EngineDescriptor,
    EngineError,
    FetchMode,
    GetRequest,
    Hit,
    InvalidRequestError,
    ItemKind,
    MemoryLayout,
    MemoryMeta,
    Namespace,
    Reach,
    ReferenceEngine,
    Role,
    SourceKind,
    SourceRef,
    Turn,
    UnsupportedError,
    WaitFor,
)
from tinymemory.testing.watched import WatchedEngine

LAYOUT = MemoryLayout(Namespace.parse("team:acme"))


@pytest.fixture
def engine() -> WatchedEngine:
    return WatchedEngine(ReferenceEngine())


@pytest.fixture
def brain(engine: WatchedEngine) -> Brain:
    return Brain(engine, LAYOUT)


def documents_build(at: str) -> BuildBeliefs:
    return BuildBeliefs(ConsolidateRequest(reach=Reach.subtree(at), kinds=(ItemKind.DOCUMENT,)))


async def stored(engine: WatchedEngine, id_: str) -> Hit:
    [hit] = await engine.inner.get(GetRequest(ids=(id_,)))
    return hit


async def test_a_document_is_filed_at_its_source_and_its_build_handed_back(
    engine: WatchedEngine, brain: Brain
) -> None:
    ingested = await brain.ingest(BrainDocument("notion", "Refunds take five days.", title="Refunds"))

    hit = await stored(engine, ingested.receipt.id)
    assert hit.kind is ItemKind.DOCUMENT
    assert hit.text == "# Refunds\n\nRefunds take five days."
    assert hit.meta == MemoryMeta(
        namespace=Namespace.parse("team:acme/source:notion"), source=SourceRef(kind=SourceKind.IMPORT)
    )
    assert ingested.job == documents_build("team:acme/source:notion") == brain.build("notion")


async def test_the_namespace_and_the_agent_of_a_documents_metadata_are_overwritten(
    engine: WatchedEngine, brain: Brain
) -> None:
    meta = MemoryMeta(
        namespace=Namespace.parse("team:other/agent:spy"), agent_id="spy", file_path="/a.pdf", tags=("x",)
    )

    ingested = await brain.ingest(BrainDocument("pdf", "text", mime="application/pdf", meta=meta))

    assert (await stored(engine, ingested.receipt.id)).meta == MemoryMeta(
        namespace=Namespace.parse("team:acme/source:pdf"),
        file_path="/a.pdf",
        tags=("x",),
        source=SourceRef(kind=SourceKind.FILE),
    )


@pytest.mark.parametrize(
    ("meta", "expected"),
    [
        (MemoryMeta(), SourceRef(kind=SourceKind.FILE)),
        (MemoryMeta(source=SourceRef(id="x")), SourceRef(kind=SourceKind.FILE, id="x")),
        (MemoryMeta(source=SourceRef(kind=SourceKind.RSS)), SourceRef(kind=SourceKind.RSS)),
        (MemoryMeta(source=SourceRef(kind=SourceKind.AGENT)), SourceRef(kind=SourceKind.AGENT)),
    ],
)
def test_the_kind_of_source_defaults_from_the_source(meta: MemoryMeta, expected: SourceRef) -> None:
    assert BrainDocument("pdf", "text", meta=meta).meta.source == expected


async def test_ingesting_waits_until_reads_find_it_unless_told_otherwise(brain: Brain) -> None:
    waits: list[WaitFor] = []

    class Waiting(ReferenceEngine):
        async def store_with(self, item: object, wait: WaitFor = WaitFor.VISIBLE):
            waits.append(wait)
            return await super().store_with(item, wait)  # pyright: ignore[reportArgumentType]  # as it came

    brain = Brain(Waiting(), LAYOUT)
    await brain.ingest(BrainDocument("pdf", "one"))
    await brain.ingest(BrainDocument("pdf", "two"), WaitFor.ACCEPTED)

    assert waits == [WaitFor.VISIBLE, WaitFor.ACCEPTED]


@pytest.mark.parametrize("text", ["", " \n\u3000"])
async def test_r64_a_document_without_text_is_refused_and_its_source_named(brain: Brain, text: str) -> None:
    with pytest.raises(InvalidRequestError, match="source `pdf` has no text"):
        await brain.ingest(BrainDocument("pdf", text, title="Secret title"))


async def test_many_documents_are_checked_before_any_is_stored(engine: WatchedEngine, brain: Brain) -> None:
    documents = [BrainDocument("web", f"page {number}") for number in range(150)]

    with pytest.raises(InvalidRequestError, match="source `pdf` has no text"):
        await brain.ingest_many([*documents, BrainDocument("pdf", " ")])

    assert engine.watch.calls == []


async def test_many_documents_go_in_batches_of_a_hundred_and_are_answered_in_order(
    engine: WatchedEngine, brain: Brain
) -> None:
    documents = [BrainDocument("web", f"page {number}") for number in range(250)]
    seen: list[tuple[int, int]] = []

    batch = await brain.ingest_many(documents, progress=lambda done, total: seen.append((done, total)))

    assert [len(items) for items in engine.watch.requests("store_many")] == [100, 100, 50]
    assert [receipt.id for receipt in batch.receipts] == [
        document.item(LAYOUT).fingerprint() for document in documents
    ]
    assert seen == [(100, 250), (200, 250), (250, 250)]


async def test_many_documents_make_one_build_per_source_in_the_order_of_sources(brain: Brain) -> None:
    sources = ["web", "pdf", "Zeta", "md", "markdown", "web", "caf\u00e9", "cafe\u0301"]

    batch = await brain.ingest_many(BrainDocument(source, f"text {source}") for source in sources)

    assert [str(job.request.reach.at) for job in batch.jobs] == [
        "team:acme/source:Zeta",
        str(LAYOUT.brain("caf\u00e9")),
        "team:acme/source:markdown",
        "team:acme/source:pdf",
        "team:acme/source:web",
    ]


async def test_no_documents_are_nothing_to_do(engine: WatchedEngine, brain: Brain) -> None:
    batch = await brain.ingest_many([])

    assert (batch.receipts, batch.jobs, engine.watch.calls) == ([], [], [])


async def test_r66_an_ingest_that_failed_halfway_is_completed_by_the_next_and_doubles_nothing(
    engine: WatchedEngine, brain: Brain
) -> None:
    documents = [BrainDocument("web", f"page {number}") for number in range(250)]
    inner = engine.inner

    async def third_batch_fails(items: list[object]) -> object:
        if len(engine.watch.requests("store_many")) == 3:
            raise EngineError("disk full")
        return await inner.store_many(items)  # pyright: ignore[reportArgumentType]  # as they came

    engine.watch.answers["store_many"] = third_batch_fails
    with pytest.raises(EngineError):
        await brain.ingest_many(documents)
    del engine.watch.answers["store_many"]

    again = await brain.ingest_many(documents)

    assert [receipt.replayed for receipt in again.receipts] == [True] * 200 + [False] * 50
    assert len({receipt.id for receipt in again.receipts}) == 250


async def test_a_search_looks_at_one_source_or_at_all(brain: Brain) -> None:
    await brain.ingest_many(
        [BrainDocument("pdf", "refunds in five days"), BrainDocument("web", "refunds are slow")]
    )

    everywhere = await brain.search("refunds")
    in_pdfs = await brain.search("refunds", "PDF")
    one = await brain.search("refunds", limit=1)

    assert {hit.text for hit in everywhere} == {"refunds in five days", "refunds are slow"}
    assert [hit.text for hit in in_pdfs] == ["refunds in five days"]
    assert len(one) == 1


async def test_a_search_finds_documents_only_and_only_below_its_root(
    engine: WatchedEngine, brain: Brain
) -> None:
    talk = Conversation(
        turns=(Turn(role=Role.USER, text="refunds"),), meta=MemoryMeta(namespace=LAYOUT.conversations("a"))
    )
    await engine.store(talk)
    await Brain(engine, MemoryLayout(Namespace.parse("team:other"))).ingest(BrainDocument("pdf", "refunds"))

    assert await brain.search("refunds") == []


@pytest.mark.parametrize(
    ("modes", "expected"),
    [
        ((FetchMode.KEYWORD, FetchMode.HYBRID), FetchMode.HYBRID),
        ((FetchMode.VECTOR, FetchMode.KEYWORD), FetchMode.VECTOR),
    ],
)
async def test_a_search_is_hybrid_where_served_and_else_the_engines_first_mode(
    modes: tuple[FetchMode, ...], expected: FetchMode
) -> None:
    descriptor = EngineDescriptor(id="x", label="X", description="", fetch_modes=modes)
    engine = WatchedEngine(ReferenceEngine(), descriptor=descriptor)

    await Brain(engine, LAYOUT).search("refunds")

    assert [request.mode for request in engine.watch.requests("fetch")] == [expected]


async def test_a_search_needs_a_query_and_an_engine_that_ranks(engine: WatchedEngine, brain: Brain) -> None:
    with pytest.raises(InvalidRequestError, match="query"):
        await brain.search(" ")
    with pytest.raises(InvalidRequestError, match="limit"):
        await brain.search("x", limit=0)

    unranked = WatchedEngine(engine, descriptor=EngineDescriptor(id="x", label="X", description=""))
    with pytest.raises(UnsupportedError, match="serves no fetch"):
        await Brain(unranked, LAYOUT).search("refunds")


async def test_forgetting_a_source_leaves_the_others(brain: Brain) -> None:
    await brain.ingest_many([BrainDocument("pdf", "refunds one"), BrainDocument("web", "refunds two")])

    report = await brain.forget("pdf")

    assert report.forgotten == 1
    assert [hit.text for hit in await brain.search("refunds")] == ["refunds two"]


def test_a_document_shows_neither_text_nor_title_in_its_repr() -> None:
    document = BrainDocument("pdf", "the secret text", title="the secret title")

    assert "secret" not in repr(document)


async def test_what_is_no_document_no_query_and_no_source_is_refused(
    engine: WatchedEngine, brain: Brain
) -> None:
    kept = await brain.ingest(BrainDocument("notion", "Refunds take five days."))
    wrong: Any = None
    with pytest.raises(InvalidRequestError, match="`document`"):
        await brain.ingest(wrong)
    with pytest.raises(InvalidRequestError, match=r"`documents\[0\]`"):
        await brain.ingest_many([wrong])
    with pytest.raises(InvalidRequestError, match="`documents`"):
        await brain.ingest_many(wrong)
    with pytest.raises(InvalidRequestError, match="`query`"):
        await brain.search(wrong)
    with pytest.raises(InvalidRequestError, match="source"):
        await brain.forget(wrong)
    assert await stored(engine, kept.receipt.id)
