"""What an engine promises: the seven methods each one has, and the defaults for the rest."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from itertools import count
from types import TracebackType
from typing import Self

from tinymemory.errors import InvalidRequestError, UnsupportedError
from tinymemory.items import Conversation, Document, Learning, StoreReceipt
from tinymemory.meta import MetaFilter
from tinymemory.model import Value
from tinymemory.namespace import Reach
from tinymemory.query import (
    BeliefsRequest,
    Bucket,
    ConsolidateReceipt,
    ConsolidateRequest,
    Consolidation,
    ExplorePage,
    ExploreRequest,
    FetchMode,
    FetchPage,
    FetchRequest,
    ForgetReport,
    ForgetTarget,
    GetRequest,
    Hit,
    ListPage,
    ListRequest,
    RecallAnswer,
    RecallRequest,
)

MAX_STORE_MANY = 100
_PAGE = 200
_NEWEST_PAGE = 100
_NEWEST_PAGES = 50
_LONG_AGO = datetime.min.replace(tzinfo=UTC)

Item = Document | Conversation | Learning


class WaitFor(StrEnum):
    """How far a store goes before it answers."""

    VISIBLE = "visible"
    """Reads find the item."""
    ACCEPTED = "accepted"
    """The item is safe; reads find it soon."""


class EngineDescriptor(Value):
    """What an engine is and can do; constant for its life."""

    id: str
    label: str
    description: str
    hosted: bool = False
    needs_endpoint: bool = False
    needs_key: bool = False
    default_endpoint: str | None = None
    fetch_modes: tuple[FetchMode, ...] = ()
    consolidation: Consolidation = Consolidation.NONE

    def supports(self, mode: FetchMode) -> bool:
        """Whether a fetch may ask for this mode."""
        return mode in self.fetch_modes

    def ensure_mode(self, mode: FetchMode) -> None:
        """Raise `UnsupportedError` unless the mode is served."""
        if not self.supports(mode):
            served = ", ".join(self.fetch_modes) or "none"
            raise UnsupportedError(f"the {self.id} engine serves no {mode} fetch (it serves {served})")


class HealthState(StrEnum):
    """Whether an engine can be used."""

    OK = "ok"
    DEGRADED = "degraded"
    DOWN = "down"


class EngineHealth(Value):
    """How an engine is, and why it is not well."""

    state: HealthState
    reason: str | None = None

    @classmethod
    def ok(cls) -> Self:
        """All is well."""
        return cls(state=HealthState.OK)

    @classmethod
    def degraded(cls, reason: str) -> Self:
        """Usable now and then, or soon again."""
        return cls(state=HealthState.DEGRADED, reason=reason)

    @classmethod
    def down(cls, reason: str) -> Self:
        """Not usable until somebody acts."""
        return cls(state=HealthState.DOWN, reason=reason)


class MemoryEngine(ABC):
    """A store of memory.

    Every method refuses a malformed request with `InvalidRequestError` before anything else, and
    raises nothing but `TinyMemoryError`.  An engine is an async context manager; leaving it closes it.
    """

    @property
    @abstractmethod
    def descriptor(self) -> EngineDescriptor:
        """What the engine is and can do."""

    @abstractmethod
    async def health(self) -> EngineHealth:
        """How the engine is; a failure is an answer, never an exception."""

    @abstractmethod
    async def recall(self, request: RecallRequest) -> RecallAnswer:
        """Answer a question from what is stored; each citation's id can be read with `get`."""

    @abstractmethod
    async def fetch(self, request: FetchRequest) -> FetchPage:
        """Rank what is stored against a query.

        Returns:
            At most `limit` hits, best first; on the first page the beliefs asked for as well.

        Raises:
            UnsupportedError: The mode is not among the descriptor's.
            InvalidRequestError: The request is malformed, or the cursor is none of this engine's.
        """

    @abstractmethod
    async def store(self, item: Item) -> StoreReceipt:
        """Store an item and wait until reads find it; the same item again is a replay."""

    @abstractmethod
    async def forget(self, target: ForgetTarget) -> ForgetReport:
        """Remove items for good, and what was derived from them."""

    @abstractmethod
    async def list(self, request: ListRequest) -> ListPage:
        """Page through what is stored: each item once, in an order that stays."""

    async def store_with(self, item: Item, wait: WaitFor = WaitFor.VISIBLE) -> StoreReceipt:
        """Store an item, going as far as `wait` asks."""
        return await self.store(item)

    async def store_many(self, items: Sequence[Item]) -> "list[StoreReceipt]":
        """Store 1 to 100 items in order, stopping at the first error.

        Raises:
            InvalidRequestError: There are none, more than 100, or one cannot be stored; nothing
                has been stored then.
        """
        ensure_batch(items)
        return [await self.store(item) for item in items]

    async def explore(self, request: ExploreRequest) -> ExplorePage:
        """Count what is stored by a facet."""
        request.ensure_valid()
        counts: Counter[str] = Counter()
        total = missing = 0
        truncated = False
        async for hit in self._listed(request.filter):
            if total == request.scan_limit:
                truncated = True
                break
            values = request.facet.values(hit.kind, hit.meta)
            total += 1
            missing += not values
            counts.update(values)
        return explore_page(request, counts, total=total, missing=missing, truncated=truncated)

    async def get(self, request: GetRequest) -> "list[Hit]":
        """Read items by id, in the order named; unknown and out-of-reach ids are left out."""
        request.ensure_valid()
        wanted = dict.fromkeys(request.ids)
        found: dict[str, Hit] = {}
        async for hit in self._listed(MetaFilter(reach=request.reach)):
            if hit.id in wanted:
                found[hit.id] = hit
                if len(found) == len(wanted):
                    break
        return [found[id_] for id_ in wanted if id_ in found]

    async def newest(
        self,
        filter: MetaFilter,  # noqa: A002  # the wire's word
        *,
        except_within: Reach | None = None,
    ) -> AsyncGenerator[Hit]:
        """What a filter selects, newest first; of equal ones the more confident, then the later turn.

        Undated items come last, and the order of the listing decides between equals.  By default the
        listing is read, up to 5,000 items, and sorted: it has no order to rely on.  An engine that can
        do better reads no further than the caller does.

        Args:
            filter: Selects.
            except_within: What lies within this reach is left out.
        """
        found: dict[str, Hit] = {}
        async for hit in self._listed(filter, page=_NEWEST_PAGE, pages=_NEWEST_PAGES):
            if except_within is None or not except_within.admits(hit.meta.namespace):
                found.setdefault(hit.id, hit)
        for hit in sorted(found.values(), key=_recency, reverse=True):
            yield hit

    async def consolidate(self, request: ConsolidateRequest) -> ConsolidateReceipt:
        """Build beliefs from what a reach holds.

        Raises:
            UnsupportedError: The engine builds none.
        """
        request.ensure_valid()
        raise UnsupportedError(f"the {self.descriptor.id} engine builds no beliefs")

    async def beliefs(self, request: BeliefsRequest) -> "list[Hit]":
        """Read beliefs: learnings tagged `belief`, ranked when there is a query."""
        request.ensure_valid()
        return []

    async def unbuilt(self, reach: Reach) -> "list[ConsolidateRequest]":
        """The builds that are owed within a reach, when the engine knows; none when it does not."""
        return []

    async def aclose(self) -> None:  # noqa: B027  # most engines hold nothing
        """Release what the engine holds; more than once is fine."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _listed(
        self,
        filter: MetaFilter,  # noqa: A002  # the wire's word
        *,
        page: int = _PAGE,
        pages: int | None = None,
    ) -> AsyncIterator[Hit]:
        cursor: str | None = None
        for _ in count() if pages is None else range(pages):
            answer = await self.list(ListRequest(filter=filter, limit=page, cursor=cursor))
            for hit in answer.items:
                yield hit
            cursor = answer.next_cursor
            if cursor is None:
                return


def _recency(hit: Hit) -> tuple[bool, datetime, float, int]:
    at, turns = hit.meta.observed_at, hit.meta.turns
    return (
        at is not None,  # what is dated in the year 1 is dated
        at or _LONG_AGO,
        -1.0 if hit.confidence is None else hit.confidence,
        -1 if turns is None else turns.last,
    )


def ensure_batch(items: Sequence[Item]) -> None:
    """Raise `InvalidRequestError` unless there are 1 to 100 items and each can be stored."""
    if not 1 <= len(items) <= MAX_STORE_MANY:
        raise InvalidRequestError(f"`items` holds {len(items)}; 1 to {MAX_STORE_MANY} fit one batch")
    for item in items:
        item.validate_storable()


def explore_page(
    request: ExploreRequest, counts: Counter[str], *, total: int, missing: int, truncated: bool
) -> ExplorePage:
    """What an explore answers for these counts: the largest buckets first, equal ones by value."""
    ranked = sorted(counts.items(), key=lambda bucket: (-bucket[1], bucket[0]))
    return ExplorePage(
        facet=request.facet,
        buckets=[Bucket(value=value, count=count) for value, count in ranked[: request.limit]],
        total=total,
        missing=missing,
        more_buckets=len(ranked) > request.limit,
        truncated=truncated,
    )
