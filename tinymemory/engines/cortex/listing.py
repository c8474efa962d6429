"""Unranked reads: pages of a listing, items by id, counts by facet."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tinymemory.engine import explore_page
from tinymemory.engines.cortex.cursors import ListCursor
from tinymemory.engines.cortex.envelope import Envelope
from tinymemory.engines.cortex.log import MAX_PAGES, Log, PageLimitError
from tinymemory.engines.cortex.places import Places
from tinymemory.engines.cortex.reader import Reader, whole_hits
from tinymemory.engines.cortex.scope import Scope, parse_scope
from tinymemory.engines.cortex.selection import Selection
from tinymemory.engines.cortex.stored import event_hit
from tinymemory.engines.cortex.together import each
from tinymemory.errors import EngineError, InvalidRequestError
from tinymemory.query import ExplorePage, ExploreRequest, GetRequest, Hit, ListPage, ListRequest


class Listing:
    """The unranked reads of one log."""

    def __init__(self, log: Log, places: Places, reader: Reader) -> None:
        self._log = log
        self._places = places
        self._reader = reader

    async def list(self, request: ListRequest) -> ListPage:
        """See `MemoryEngine.list`."""
        cursor = ListCursor.parse(request.cursor) if request.cursor is not None else ListCursor()
        selection = Selection(request.filter)
        scopes = await self._places.readable(request.filter.reach, request.filter.kinds)
        left, cursor = _from(scopes, cursor)
        scan = _Scan(self._log, selection, request.limit, pages_left=MAX_PAGES + len(scopes))
        next_cursor = await scan.run(left, cursor)
        return ListPage(
            items=await self._hits(scan.starts), next_cursor=None if next_cursor is None else str(next_cursor)
        )

    async def get(self, request: GetRequest) -> "list[Hit]":
        """See `MemoryEngine.get`."""
        wanted = dict.fromkeys(request.ids)
        found: dict[str, Hit] = {}
        for scope in await self._places.readable(request.reach, ()):
            missing = [item_id for item_id in wanted if item_id not in found]
            if not missing:
                break
            found |= whole_hits(await self._reader.lookup(scope, missing))
        return [found[item_id] for item_id in wanted if item_id in found]

    async def explore(self, request: ExploreRequest) -> ExplorePage:
        """See `MemoryEngine.explore`; nothing is put together, so an item lacking a piece counts."""
        selection = Selection(request.filter)
        scopes = await self._places.readable(request.filter.reach, request.filter.kinds)

        async def count(scope: Scope) -> "_Counted":
            return await self._count(scope, selection, request)

        items: dict[str, Sequence[str]] = {}
        truncated = False
        for counted in await each(scopes, count):
            items |= {item_id: found for item_id, found in counted.values.items() if item_id not in items}
            truncated |= counted.is_truncated
        scanned = list(items.values())[: request.scan_limit]
        return explore_page(
            request,
            Counter(value for values in scanned for value in values),
            total=len(scanned),
            missing=sum(not values for values in scanned),
            truncated=truncated or len(items) > len(scanned),
        )

    async def _count(self, scope: Scope, selection: Selection, request: ExploreRequest) -> "_Counted":
        values: dict[str, Sequence[str]] = {}
        try:
            async for stored in self._reader.walk(scope, selection.labels):
                envelope = stored.envelope
                if envelope.starts_item and selection.admits(envelope) and envelope.id not in values:
                    if len(values) == request.scan_limit:
                        return _Counted(values, is_truncated=True)
                    values[envelope.id] = request.facet.values(envelope.kind, envelope.meta)
        except PageLimitError:
            return _Counted(values, is_truncated=True)
        return _Counted(values, is_truncated=False)

    async def _hits(self, starts: "dict[str, tuple[Scope, Envelope]]") -> "list[Hit]":
        split = {item_id: scope for item_id, (scope, envelope) in starts.items() if not envelope.is_whole}
        assembled = await self._reader.assembled(split)
        hits = (
            assembled.get(item_id) if item_id in split else event_hit(envelope)
            for item_id, (_, envelope) in starts.items()
        )
        return [hit for hit in hits if hit is not None]


@dataclass(frozen=True, slots=True)
class _Counted:
    values: dict[str, Sequence[str]]
    """Of each item, what the facet counts."""
    is_truncated: bool


class _Scan:
    """One call's way through the listings of its scopes."""

    def __init__(self, log: Log, selection: Selection, limit: int, *, pages_left: int) -> None:
        self.starts: dict[str, tuple[Scope, Envelope]] = {}
        """Where each item found begins, in the order of the listing."""
        self._log = log
        self._selection = selection
        self._limit = limit
        self._pages_left = pages_left

    async def run(self, scopes: Sequence[Scope], cursor: ListCursor) -> ListCursor | None:
        """Collect items until the limit; returns where to go on, or None when nothing can follow."""
        for index, scope in enumerate(scopes):
            at: ListCursor | None = cursor if index == 0 else ListCursor(scope.path)
            while at is not None:
                at = await self._page(scope, at)
                if len(self.starts) == self._limit:
                    return at or (ListCursor(scopes[index + 1].path) if index + 1 < len(scopes) else None)
        return None

    async def _page(self, scope: Scope, at: ListCursor) -> ListCursor | None:
        """Read one page from a cursor on; returns the next cursor in this scope, or None at its end."""
        if not self._pages_left:
            raise EngineError(f"the listing exceeded {MAX_PAGES} pages")
        self._pages_left -= 1
        page = await self._log.page(scope, self._selection.labels, at.engine)
        offset, last = at.offset, at.last
        for event in page.events[at.offset :]:
            is_twin = event is None or event.id == last
            # Past the twin of the last one, so that a page holding nothing else is consumed.
            if len(self.starts) == self._limit and not is_twin:
                return ListCursor(scope.path, at.engine, offset, last)
            offset += 1
            if event is not None and not is_twin:
                last = event.id
                self._consider(scope, event.envelope)
        return ListCursor(scope.path, page.next_cursor, 0, last) if page.next_cursor is not None else None

    def _consider(self, scope: Scope, envelope: Envelope | None) -> None:
        if (
            envelope is not None
            and envelope.kind is scope.kind
            and envelope.starts_item
            and envelope.id not in self.starts
            and self._selection.admits(envelope)
        ):
            self.starts[envelope.id] = scope, envelope


def _from(scopes: Sequence[Scope], cursor: ListCursor) -> tuple[Sequence[Scope], ListCursor]:
    """The scopes from the cursor's on; when that is gone, from the one after it, at its start."""
    if cursor.scope is None:
        return scopes, cursor
    stopped_in = parse_scope(cursor.scope)
    if stopped_in is None:
        raise InvalidRequestError("the `cursor` names a scope that is none of ours")
    left = [scope for scope in scopes if scope >= stopped_in]
    if left and left[0] == stopped_in:
        return left, cursor
    return left, ListCursor(left[0].path if left else None)
