"""The reference engine: memory in a dictionary, every answer obvious by inspection.

For tests and for reading.  What it holds ends with the process, and every read looks at every item.
"""

import math
import re
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import ClassVar

from tinymemory.engine import EngineDescriptor, EngineHealth, Item, MemoryEngine
from tinymemory.errors import InvalidRequestError
from tinymemory.items import Conversation, Document, Learning, LearningKind, Role, StoreReceipt
from tinymemory.meta import MemoryMeta, MetaFilter
from tinymemory.query import (
    Citation,
    ConsolidateReceipt,
    ConsolidateRequest,
    ConsolidateStatus,
    Consolidation,
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
    TimeHint,
)
from tinymemory.text import first_sentence

CONSOLIDATED = "consolidated"
"""The tag of what a build stored."""

_DIMENSIONS = 64
_NEAR = 0.2
_LONGEST_SENTENCE = 240
_NOTHING = "Nothing stored answers this."
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class _Stored:
    number: int
    """Counts up over the engine's life, so that a listing resumes behind what is gone."""
    id: str
    item: Item

    def hit(self, score: float = 0.0) -> Hit:
        item = self.item
        return Hit(
            id=self.id,
            kind=item.kind,
            text=item.render_text(),
            meta=item.meta,
            score=score,
            confidence=item.confidence,
        )


class ReferenceEngine(MemoryEngine):
    """A whole engine in memory.

    Keyword scores are the share of the query's distinct words that an item has; vector scores the
    cosine of 64-dimensional hashed character trigrams, from 0.2 up; hybrid scores their mean.  A
    build stores one learning per document or conversation: its first sentence.
    """

    DESCRIPTOR: ClassVar = EngineDescriptor(
        id="reference",
        label="Reference",
        description="In memory, for tests; nothing survives the process.",
        fetch_modes=(FetchMode.KEYWORD, FetchMode.VECTOR, FetchMode.HYBRID),
        consolidation=Consolidation.ON_DEMAND,
    )

    def __init__(self) -> None:
        self._items: dict[str, _Stored] = {}
        self._numbers = count(1)

    @property
    def descriptor(self) -> EngineDescriptor:
        """Three fetch modes, builds on demand."""
        return self.DESCRIPTOR

    async def health(self) -> EngineHealth:
        """Always ok."""
        return EngineHealth.ok()

    async def store(self, item: Item) -> StoreReceipt:
        """Store an item; one that is held already stays as it is."""
        item.validate_storable()
        return self._put(item)

    async def forget(self, target: ForgetTarget) -> ForgetReport:
        """Remove items, and the learnings a build drew from them; counts the items named."""
        target.ensure_valid()
        if target.wanted_ids is not None:
            gone = set(target.wanted_ids) & self._items.keys()
        else:
            gone = {stored.id for stored in self._selected(target.wanted_filter or MetaFilter())}
        derived = {stored.id for stored in self._items.values() if _is_drawn_from(stored.item, gone)}
        self._items = {id_: kept for id_, kept in self._items.items() if id_ not in gone | derived}
        return ForgetReport(forgotten=len(gone))

    async def list(self, request: ListRequest) -> ListPage:
        """Page through the items in the order they were stored."""
        request.ensure_valid()
        after = _position("list", request.cursor)
        rest = [stored for stored in self._selected(request.filter) if stored.number > after]
        page = rest[: request.limit]
        more = len(rest) > len(page)
        return ListPage(
            items=[stored.hit() for stored in page],
            next_cursor=_cursor("list", page[-1].number) if more else None,
        )

    async def get(self, request: GetRequest) -> "list[Hit]":
        """Look items up by id."""
        request.ensure_valid()
        found = [self._items[id_] for id_ in dict.fromkeys(request.ids) if id_ in self._items]
        return [
            stored.hit()
            for stored in found
            if request.reach is None or request.reach.admits(stored.item.meta.namespace)
        ]

    async def fetch(self, request: FetchRequest) -> FetchPage:
        """Score every item; equal scores stay in the order they were stored."""
        request.ensure_valid()
        self.descriptor.ensure_mode(request.mode)
        start = _position("fetch", request.cursor)
        ranked = self._ranked(request.query, request.mode, request.filter, request.refers_to)
        end = start + request.limit
        return FetchPage(
            hits=ranked[start:end], next_cursor=_cursor("fetch", end) if end < len(ranked) else None
        )

    async def recall(self, request: RecallRequest) -> RecallAnswer:
        """Quote the best hybrid hits, or say that nothing stored answers."""
        request.ensure_valid()
        ranked = self._ranked(request.question, FetchMode.HYBRID, request.filter, request.refers_to)
        best = ranked[: request.limit]
        return RecallAnswer(
            answer="\n".join(hit.text for hit in best) or _NOTHING,
            citations=[
                Citation(id=hit.id, kind=hit.kind, snippet=hit.text, meta=hit.meta, score=hit.score)
                for hit in best
            ],
        )

    async def consolidate(self, request: ConsolidateRequest) -> ConsolidateReceipt:
        """Store one fact per document or conversation in reach; what was built before is a replay."""
        request.ensure_valid()
        sources = self._selected(MetaFilter(reach=request.reach, kinds=request.kinds))
        facts = [fact for source in sources if (fact := _fact(source)) is not None]
        receipts = [self._put(fact) for fact in facts]
        return ConsolidateReceipt(
            status=ConsolidateStatus.COMPLETED,
            scopes=len({fact.meta.namespace for fact in facts}),
            built=sum(not receipt.replayed for receipt in receipts),
        )

    def _put(self, item: Item) -> StoreReceipt:
        id_ = item.fingerprint()
        replayed = id_ in self._items
        if not replayed:
            self._items[id_] = _Stored(next(self._numbers), id_, item)
        return StoreReceipt(id=id_, replayed=replayed)

    def _selected(self, filter: MetaFilter) -> "list[_Stored]":  # noqa: A002  # the wire's word
        return [
            stored for stored in self._items.values() if filter.matches(stored.item.kind, stored.item.meta)
        ]

    def _ranked(
        self,
        query: str,
        mode: FetchMode,
        filter: MetaFilter,  # noqa: A002  # the wire's word
        refers_to: TimeHint | None,
    ) -> "list[Hit]":
        score = _scorer(query, mode)
        hits = (stored.hit(score(stored.item.render_text())) for stored in self._selected(filter))
        ranked = sorted((hit for hit in hits if hit.score > 0), key=lambda hit: -hit.score)
        return ranked if refers_to is None else refers_to.rank(ranked)


def _scorer(query: str, mode: FetchMode) -> Callable[[str], float]:
    words, vector = _words(query), _vector(query)

    def keyword(text: str) -> float:
        return len(words & _words(text)) / len(words) if words else 0.0

    def near(text: str) -> float:
        cosine = _cosine(vector, _vector(text))
        return cosine if cosine >= _NEAR else 0.0

    match mode:
        case FetchMode.KEYWORD:
            return keyword
        case FetchMode.VECTOR:
            return near
        case FetchMode.HYBRID:
            return lambda text: (keyword(text) + near(text)) / 2


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))


@lru_cache(maxsize=4096)
def _vector(text: str) -> dict[int, float]:
    spaced = f" {' '.join(text.casefold().split())} "
    trigrams = (spaced[start : start + 3] for start in range(len(spaced) - 2))
    # A checksum and not `hash()`, which differs from one process to the next.
    counts = Counter(
        zlib.crc32(trigram.encode("utf-8", "surrogatepass")) % _DIMENSIONS for trigram in trigrams
    )
    length = math.hypot(*counts.values())
    return {dimension: count / length for dimension, count in counts.items()}


def _cosine(one: dict[int, float], other: dict[int, float]) -> float:
    return sum(weight * other.get(dimension, 0.0) for dimension, weight in one.items())


def _fact(source: _Stored) -> Learning | None:
    """What a build draws from an item: its first sentence, where the item lives."""
    said = _first_words(source.item)
    meta = source.item.meta
    if said is None or meta.derive is False:
        return None
    return Learning(
        text=said,
        kind=LearningKind.FACT,
        confidence=0.5,
        evidence=source.id,
        meta=MemoryMeta(namespace=meta.namespace, tags=(CONSOLIDATED,), observed_at=meta.observed_at),
    )


def _first_words(item: Item) -> str | None:
    match item:
        case Document():
            return first_sentence(item.body.text or "", limit=_LONGEST_SENTENCE, is_titled=True)
        case Conversation():
            said = next((turn.text for turn in item.turns if turn.role is Role.USER), "")
            return first_sentence(said, limit=_LONGEST_SENTENCE)
        case Learning():
            return None


def _is_drawn_from(item: Item, sources: set[str]) -> bool:
    return isinstance(item, Learning) and item.evidence in sources and CONSOLIDATED in item.meta.tags


def _cursor(operation: str, position: int) -> str:
    return f"{operation}-{position:x}"


def _position(operation: str, cursor: str | None) -> int:
    if cursor is None:
        return 0
    match = re.fullmatch(rf"{operation}-([1-9a-f][0-9a-f]{{0,11}})", cursor)
    if match is None:
        raise InvalidRequestError(f"`cursor` is none that a {operation} of this engine handed out")
    return int(match[1], 16)
