"""The brain: documents that every agent under a root can read, filed by where they came from."""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from tinymemory.brain_input import BrainDocument
from tinymemory.engine import MAX_STORE_MANY, MemoryEngine, WaitFor
from tinymemory.errors import UnsupportedError
from tinymemory.items import Document, StoreReceipt
from tinymemory.jobs import BuildBeliefs
from tinymemory.layout import BrainSource, MemoryLayout
from tinymemory.meta import ItemKind
from tinymemory.model import Value, ensure_is, parse
from tinymemory.namespace import Reach
from tinymemory.query import (
    ConsolidateRequest,
    FetchMode,
    FetchRequest,
    ForgetReport,
    ForgetTarget,
    Hit,
)

__all__ = ["Brain", "BrainBatch", "BrainDocument", "BrainSource", "Ingested", "Progress"]

Progress = Callable[[int, int], None]
"""Told after each batch how many documents are stored, and how many there are."""


class Ingested(Value):
    """What became of one document."""

    receipt: StoreReceipt
    job: BuildBeliefs
    """Builds the beliefs of the document's source, when the host likes."""


class BrainBatch(Value):
    """What became of several documents."""

    receipts: list[StoreReceipt]
    """In the order of the documents."""
    jobs: list[BuildBeliefs]
    """One build per source touched, by the source's id."""


class Brain:
    """The documents below a layout's root.

    Every method raises `InvalidRequestError` for malformed input, and what the engine raises.
    """

    def __init__(self, engine: MemoryEngine, layout: MemoryLayout) -> None:
        ensure_is(engine, MemoryEngine, "engine")
        ensure_is(layout, MemoryLayout, "layout")
        self.engine = engine
        self.layout = layout

    async def ingest(self, document: BrainDocument, wait: WaitFor = WaitFor.VISIBLE) -> Ingested:
        """Store a document, and by default wait until reads find it; the same one again is a replay."""
        ensure_is(document, BrainDocument, "document")
        receipt = await self.engine.store_with(document.item(self.layout), wait)
        return Ingested(receipt=receipt, job=self.build(document.source))

    async def ingest_many(
        self, documents: Iterable[BrainDocument], *, progress: Progress | None = None
    ) -> BrainBatch:
        """Store documents in batches of 100.

        All of them are checked before any is stored.  An engine failure leaves the batches before it
        stored; ingesting the same documents again completes them, and what is there is a replay.
        """
        ensure_is(documents, Iterable, "documents")
        documents = tuple(documents)
        for position, document in enumerate(documents):
            ensure_is(document, BrainDocument, f"documents[{position}]")
        receipts: list[StoreReceipt] = []
        for batch in _batches([document.item(self.layout) for document in documents]):
            receipts += await self.engine.store_many(batch)
            if progress is not None:
                progress(len(receipts), len(documents))
        return BrainBatch(receipts=receipts, jobs=self._builds(documents))

    async def search(self, query: str, source: BrainSource | str | None = None, limit: int = 10) -> list[Hit]:
        """Documents of one source or of all, best first; hybrid where the engine serves it.

        Raises:
            UnsupportedError: The engine serves no fetch mode.
        """
        modes = self.engine.descriptor.fetch_modes
        if not modes:
            raise UnsupportedError(f"the {self.engine.descriptor.id} engine serves no fetch")
        mode = FetchMode.HYBRID if FetchMode.HYBRID in modes else modes[0]
        wanted = self.layout.brain_filter(source)
        asked = {"query": query, "mode": mode, "filter": wanted, "limit": limit}
        page = await self.engine.fetch(parse(FetchRequest, asked, what="search"))
        return page.hits

    async def forget(self, source: BrainSource | str) -> ForgetReport:
        """Forget every document of a source."""
        # Parsed first: of a filter, no source is every source.
        wanted = self.layout.brain_filter(BrainSource.parse(source))
        return await self.engine.forget(ForgetTarget.filter(wanted))

    def build(self, source: BrainSource | str) -> BuildBeliefs:
        """The job that builds the beliefs of a source."""
        reach = Reach.subtree(self.layout.brain(source))
        return BuildBeliefs(ConsolidateRequest(reach=reach, kinds=(ItemKind.DOCUMENT,)))

    def _builds(self, documents: Sequence[BrainDocument]) -> list[BuildBeliefs]:
        # Two spellings of one source are one scope, and so one build.
        return list(dict.fromkeys(map(self.build, sorted({document.source for document in documents}))))


def _batches(items: Iterable[Document]) -> Iterable[list[Document]]:
    rest = iter(items)
    return iter(lambda: list(islice(rest, MAX_STORE_MANY)), [])
