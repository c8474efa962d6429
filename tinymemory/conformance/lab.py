"""A place of a check's own in an engine: what it writes, what it reads back, and the tidying up."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from tinymemory.conformance.errors import promise
from tinymemory.engine import Item, MemoryEngine, WaitFor
from tinymemory.errors import InvalidRequestError
from tinymemory.items import Conversation, Document, DocumentBody, Learning, StoreReceipt, Turn
from tinymemory.meta import MemoryMeta, MetaFilter
from tinymemory.namespace import Namespace, Reach, Segment, SegmentKind
from tinymemory.query import FetchMode, FetchRequest, ForgetTarget, GetRequest, Hit, ListRequest

QUERY = "the lighthouse keeper logs the tide"
"""What every text of a lab says, so that every fetch mode ranks all of them."""

ACCEPTED_SECONDS = 60.0
"""How long an accepted item may take to be readable."""

_PAGE = 50
_MOST_PAGES = 200
_IDS_AT_ONCE = 100


class Lab:
    """A workspace below which one run writes, and the shortcuts its checks read with."""

    def __init__(self, engine: MemoryEngine) -> None:
        self.engine = engine
        self.name = f"conformance-{uuid.uuid4().hex[:12]}"
        self.root = Namespace((Segment(SegmentKind.WORKSPACE, self.name),))
        self.reach = Reach.subtree(self.root)
        self._ids: set[str] = set()

    def at(self, path: str = "") -> Namespace:
        """A namespace below the lab's workspace."""
        return Namespace.parse(f"{self.root}/{path}" if path else str(self.root))

    def meta(self, at: str = "", **fields: Any) -> MemoryMeta:
        """Metadata of an item at a namespace below the workspace."""
        return MemoryMeta.model_validate({"namespace": self.at(at), **fields})

    def learning(self, name: str, at: str = "", **fields: Any) -> Learning:
        """A learning that says what all of the lab says, and its name."""
        return Learning(text=f"{QUERY} {name}", meta=self.meta(at, **fields))

    def document(self, name: str, at: str = "", **fields: Any) -> Document:
        """A document that says what all of the lab says, and its name."""
        body = DocumentBody(text=f"Of {name}: {QUERY}. It rises at noon.")
        return Document(title=f"Log {name}", body=body, mime="text/plain", meta=self.meta(at, **fields))

    def conversation(self, name: str, at: str = "", **fields: Any) -> Conversation:
        """Two turns, the first of which says what all of the lab says, and its name."""
        turns = ({"role": "user", "text": f"{QUERY} {name}"}, {"role": "assistant", "text": f"noted {name}"})
        return Conversation(
            turns=tuple(Turn.model_validate(turn) for turn in turns), meta=self.meta(at, **fields)
        )

    def filter(self, **fields: Any) -> MetaFilter:
        """A filter confined to the lab unless it names a reach."""
        return MetaFilter.model_validate({"reach": self.reach, **fields})

    async def store(self, item: Item) -> StoreReceipt:
        """Store an item and check that the receipt is that item's."""
        self._ids.add(item.fingerprint())
        receipt = await self.engine.store(item)
        self.ensure_receipt(item, receipt)
        return receipt

    async def store_with(self, item: Item, wait: WaitFor) -> StoreReceipt:
        """The same with a wait."""
        self._ids.add(item.fingerprint())
        receipt = await self.engine.store_with(item, wait=wait)
        self.ensure_receipt(item, receipt)
        return receipt

    async def store_many(self, items: Sequence[Item]) -> list[StoreReceipt]:
        """The same for a batch, in one call."""
        self._ids.update(item.fingerprint() for item in items)
        receipts = await self.engine.store_many(items)
        promise(len(receipts) == len(items), f"a batch of {len(items)} had {len(receipts)} receipts")
        for item, receipt in zip(items, receipts, strict=True):
            self.ensure_receipt(item, receipt)
        return receipts

    def ensure_receipt(self, item: Item, receipt: StoreReceipt) -> None:
        """Break unless the receipt names the item by its fingerprint."""
        promise(
            receipt.id == item.fingerprint(),
            f"a {item.kind} was answered with the id {receipt.id}, and not its fingerprint",
        )

    async def fill(self, items: Sequence[Item]) -> list[str]:
        """Store a batch for a check of something else; the items' ids."""
        stored = [item.fingerprint() for item in items]
        self._ids.update(stored)
        await self.engine.store_many(items)
        return stored

    async def store_all(self, items: Iterable[Item]) -> list[str]:
        """Store items one by one; their ids."""
        return [(await self.store(item)).id for item in items]

    async def listed(self, filter: MetaFilter | None = None, limit: int = _PAGE) -> list[Hit]:  # noqa: A002  # the wire's word
        """All pages of a listing, of the whole lab by default."""
        found: list[Hit] = []
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            request = ListRequest(filter=filter or self.filter(), limit=limit, cursor=cursor)
            page = await self.engine.list(request)
            promise(len(page.items) <= limit, f"a listing of {limit} answered {len(page.items)} items")
            found += page.items
            cursor = page.next_cursor
            if cursor is None:
                return found
        promise(False, f"a listing did not end within {_MOST_PAGES} pages")
        return found

    async def fetched(self, mode: FetchMode, filter: MetaFilter | None = None) -> list[Hit]:  # noqa: A002  # the wire's word
        """The first page of a fetch for what every text says."""
        request = FetchRequest(query=QUERY, mode=mode, filter=filter or self.filter(), limit=_PAGE)
        return (await self.engine.fetch(request)).hits

    async def got(self, ids: Iterable[str], reach: Reach | None = None) -> list[Hit]:
        """Items by id, within the lab by default."""
        return await self.engine.get(GetRequest(ids=tuple(ids), reach=reach or self.reach))

    async def refused(self, what: str, call: Callable[[], Awaitable[object]]) -> None:
        """Break unless the call is refused as a malformed request."""
        try:
            await call()
        except InvalidRequestError:
            return
        promise(False, f"{what} was not refused as an invalid request")

    async def readable(self, id_: str) -> bool:
        """Whether an accepted item becomes readable within its time."""
        try:
            async with asyncio.timeout(ACCEPTED_SECONDS):
                wait = 0.01
                while not await self.got([id_]):
                    await asyncio.sleep(wait)
                    wait = min(2 * wait, 1.0)
        except TimeoutError:
            return False
        return True

    async def tidy(self) -> None:
        """Forget what the lab wrote: by its workspace, and by id what a broken filter left."""
        if not self._ids:
            return
        await self.engine.forget(ForgetTarget.filter(self.filter()))
        ids = sorted(self._ids)
        for start in range(0, len(ids), _IDS_AT_ONCE):
            left = await self.got(ids[start : start + _IDS_AT_ONCE])
            if left:
                await self.engine.forget(ForgetTarget.ids([hit.id for hit in left]))

    async def tidy_after(self, error: BaseException) -> None:
        """Tidy up behind a failure; that it failed as well is a note on the first failure."""
        try:
            await self.tidy()
        except Exception as another:  # what is raised is the failure that came first
            error.add_note(f"cleaning up behind it failed too: {another}")


def ids(hits: Iterable[Hit]) -> list[str]:
    """The ids of hits, in order."""
    return [hit.id for hit in hits]


def ensure_same_ids(found: Iterable[str], wanted: Iterable[str], what: str) -> None:
    """Break unless exactly the wanted ids were found, each once, in any order."""
    found, wanted = sorted(found), sorted(wanted)
    missing, extra = set(wanted) - set(found), set(found) - set(wanted)
    promise(not missing, f"{what} left out {len(missing)} of {len(wanted)} items")
    promise(not extra, f"{what} held {len(extra)} items it should not")
    promise(len(found) == len(wanted), f"{what} held an item more than once")
