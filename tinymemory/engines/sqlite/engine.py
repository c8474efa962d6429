"""The embedded engine: memory in one SQLite file that any number of processes share."""

import os
import sqlite3
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, ClassVar

from tinymemory.engine import (
    EngineDescriptor,
    EngineHealth,
    Item,
    MemoryEngine,
    WaitFor,
    ensure_batch,
    explore_page,
)
from tinymemory.engines.sqlite import counting, rows, topics
from tinymemory.engines.sqlite.answer import answer
from tinymemory.engines.sqlite.builder import Builder
from tinymemory.engines.sqlite.cursor import cursor, numbers_of
from tinymemory.engines.sqlite.database import Database
from tinymemory.engines.sqlite.distiller import Distiller, ExtractiveDistiller
from tinymemory.engines.sqlite.embedder import Embedder, HashedEmbedder
from tinymemory.engines.sqlite.embedding import Embedding
from tinymemory.engines.sqlite.ranking import Found, Query, ranked
from tinymemory.engines.sqlite.rows import Record
from tinymemory.engines.sqlite.selection import Layer, selection
from tinymemory.errors import TinyMemoryError
from tinymemory.items import StoreReceipt
from tinymemory.meta import MetaFilter
from tinymemory.namespace import Reach
from tinymemory.query import (
    BeliefsRequest,
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
    TimeHint,
)
from tinymemory.text import is_blank

NEWEST_AT_ONCE = 50
"""How many of the newest items are read before anybody asks for them: about what a section takes."""

MOST_SETTLED_BY_A_READ = 512
"""How many vectors that are owed a fetch makes before it answers; a build makes all."""


class SqliteEngine(MemoryEngine):
    """Memory in the file at `path`, which is made when it is not there.

    Durable: what a store acknowledges survives the process and the power.  Any number of processes,
    threads and event loops may use the same file at once; no call blocks the event loop, and a process
    may fork.  Without an `embedder` and a `distiller` everything is computed here, from nothing but
    the text; given ones are closed with the engine when they can be.

    Raises:
        ConfigError: The path is none of a file; and, from any method, the file cannot be opened,
            is none of ours, or was written by a newer version.
    """

    DESCRIPTOR: ClassVar = EngineDescriptor(
        id="sqlite",
        label="SQLite",
        description="Embedded and durable: one file that host, workers and command line share.",
        fetch_modes=(FetchMode.KEYWORD, FetchMode.VECTOR, FetchMode.HYBRID),
        consolidation=Consolidation.ON_DEMAND,
    )

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        embedder: Embedder | None = None,
        distiller: Distiller | None = None,
    ) -> None:
        self._database = Database(path)
        self._embedder: Embedder = embedder or HashedEmbedder()
        self._distiller: Distiller = distiller or ExtractiveDistiller()
        self._embedding = Embedding(self._database, self._embedder)
        self._builder = Builder(self._database, self._distiller, self._embedding)

    @property
    def descriptor(self) -> EngineDescriptor:
        """Three fetch modes, builds on demand."""
        return self.DESCRIPTOR

    async def health(self) -> EngineHealth:
        """Down when the file cannot be written; degraded when others keep it busy."""
        try:
            await self._database.write(lambda connection: connection.execute("SELECT 1 FROM items LIMIT 1"))
        except TinyMemoryError as error:
            return (EngineHealth.degraded if error.is_transient else EngineHealth.down)(error.message)
        return EngineHealth.ok()

    async def store(self, item: Item) -> StoreReceipt:
        """Store an item: words and vectors with it, in one transaction."""
        return await self.store_with(item, WaitFor.VISIBLE)

    async def store_with(self, item: Item, wait: WaitFor = WaitFor.VISIBLE) -> StoreReceipt:
        """Store an item; accepted, it is on disk and found by words, and its vectors may follow later."""
        item.validate_storable()
        (receipt,) = await self._store([item], wait)
        return receipt

    async def store_many(self, items: Sequence[Item]) -> "list[StoreReceipt]":
        """Store 1 to 100 items in one transaction: all of them, or none."""
        ensure_batch(items)
        return await self._store(items, WaitFor.VISIBLE)

    async def forget(self, target: ForgetTarget) -> ForgetReport:
        """Remove items, and the beliefs built from them; counts the items."""
        target.ensure_valid()
        ids, wanted = target.wanted_ids, target.wanted_filter

        def forgotten(connection: sqlite3.Connection) -> int:
            if wanted is None:
                numbers = list(rows.held(connection, ids or ()).values())
            else:
                # SQL has decided already; what is removed for good is worth a second opinion.
                found = rows.metas(connection, selection(wanted))
                numbers = [number for number, kind, meta in found if wanted.matches(kind, meta)]
            topics.forget(connection, numbers)
            return len(numbers)

        count = await self._database.write(forgotten)
        if count:
            await self._database.write(rows.scrub)
        return ForgetReport(forgotten=count)

    async def list(self, request: ListRequest) -> ListPage:
        """Page through the items in the order they were stored; what is stored meanwhile comes last."""
        request.ensure_valid()
        (after,) = (0,) if request.cursor is None else numbers_of("list", request.cursor, 1)
        chosen = selection(request.filter)
        found = await self._database.read(
            lambda connection: rows.page(connection, chosen, after=after, limit=request.limit + 1)
        )
        page = found[: request.limit]
        more = len(found) > len(page)
        return ListPage(
            items=[stored.hit() for stored in page],
            next_cursor=cursor("list", page[-1].number) if more else None,
        )

    async def newest(
        self,
        filter: MetaFilter,  # noqa: A002  # the wire's word
        *,
        except_within: Reach | None = None,
    ) -> AsyncGenerator[Hit]:
        """What a filter selects, newest first, read as far as the caller does."""
        chosen = selection(filter)
        if except_within is not None:
            chosen = chosen.outside(except_within)
        numbers = await self._database.read(lambda connection: rows.by_recency(connection, chosen))
        for start in range(0, len(numbers), NEWEST_AT_ONCE):
            some = numbers[start : start + NEWEST_AT_ONCE]
            found = await self._database.read(lambda connection, some=some: rows.by_number(connection, some))
            for number in some:
                if number in found:  # not forgotten meanwhile
                    yield found[number].hit()

    async def get(self, request: GetRequest) -> "list[Hit]":
        """Look items up by id."""
        request.ensure_valid()
        ids = list(dict.fromkeys(request.ids))
        found = await self._database.read(lambda connection: rows.by_id(connection, ids))
        return [
            found[id_].hit()
            for id_ in ids
            if id_ in found
            and (request.reach is None or request.reach.admits(found[id_].item.meta.namespace))
        ]

    async def explore(self, request: ExploreRequest) -> ExplorePage:
        """Count by a facet; the items stored first are those within the scan limit."""
        request.ensure_valid()
        counted = await self._database.read(lambda connection: counting.count(connection, request))
        return explore_page(
            request,
            Counter(counted.values),
            total=counted.total,
            missing=counted.missing,
            truncated=counted.more,
        )

    async def fetch(self, request: FetchRequest) -> FetchPage:
        """Rank by words, by vectors or by both; a hit of a large document is the piece that was found.

        A later page ranks what was stored when the first did, so that no write shifts it.  A fetch
        goes 1,000 pieces deep.
        """
        request.ensure_valid()
        self.descriptor.ensure_mode(request.mode)
        first = request.cursor is None
        start, newest = (0, None) if request.cursor is None else numbers_of("fetch", request.cursor, 2)
        query = await self._query(request.query, request.mode, request.refers_to)

        def page(connection: sqlite3.Connection) -> FetchPage:
            as_of = rows.newest(connection) if newest is None else newest
            found = ranked(connection, query, selection(request.filter).up_to(as_of))
            end = start + request.limit
            beliefs = _believed(connection, query, request.filter.reach, request.beliefs if first else 0)
            return FetchPage(
                hits=_hits(connection, found[start:end]),
                next_cursor=cursor("fetch", end, as_of) if end < len(found) else None,
                beliefs=beliefs,
            )

        return await self._database.read(page)

    async def recall(self, request: RecallRequest) -> RecallAnswer:
        """Quote the best hybrid hits, or say that nothing stored answers."""
        request.ensure_valid()
        query = await self._query(request.question, FetchMode.HYBRID, request.refers_to)
        hits = await self._database.read(
            lambda connection: _hits(
                connection, ranked(connection, query, selection(request.filter))[: request.limit]
            )
        )
        return answer(request.question, hits)

    async def consolidate(self, request: ConsolidateRequest) -> ConsolidateReceipt:
        """Build beliefs from what changed in reach since its last build.

        Raises:
            UnavailableError, UnauthorizedError, InsufficientCreditsError: The distiller failed so;
                what it had built before is kept, and the rest is owed.
        """
        request.ensure_valid()
        return await self._builder.build(request)

    async def beliefs(self, request: BeliefsRequest) -> "list[Hit]":
        """Read beliefs: ranked for the query, else the newest first."""
        request.ensure_valid()
        if request.query is None or is_blank(request.query):
            chosen = selection(MetaFilter(reach=request.reach), Layer.BELIEF)
            found = await self._database.read(
                lambda connection: rows.newest_first(connection, chosen, limit=request.limit)
            )
            return [stored.hit() for stored in found]
        query = await self._query(request.query, FetchMode.HYBRID)
        return await self._database.read(
            lambda connection: _believed(connection, query, request.reach, request.limit)
        )

    async def unbuilt(self, reach: Reach) -> "list[ConsolidateRequest]":
        """A build for each node and kind with something no build has read."""
        scopes = await self._database.read(lambda connection: topics.unbuilt_scopes(connection, reach))
        return [ConsolidateRequest(reach=Reach.exact(at), kinds=(kind,)) for at, kind in scopes]

    async def aclose(self) -> None:
        """Close the file, the embedder and the distiller; a later call opens them again."""
        await self._database.aclose()
        for part in (self._embedder, self._distiller):
            close: Callable[[], Any] | None = getattr(part, "aclose", None)
            if close is not None:
                await close()

    async def _store(self, items: Sequence[Item], wait: WaitFor) -> "list[StoreReceipt]":
        def prepared(connection: sqlite3.Connection) -> "tuple[list[Record], dict[str, int]]":
            records = [Record.of(item) for item in items]
            return records, rows.held(connection, [record.id for record in records])

        records, held = await self._database.read(prepared)
        new = [record for record in records if record.id not in held]
        if new and (wait is WaitFor.VISIBLE or self._embedding.is_local):
            new = await self._embedding.completed(new)
        stored: set[str] = set()
        if new:
            stored = await self._database.write(lambda connection: _insert_all(connection, new))
        return [
            StoreReceipt(id=record.id, replayed=record.id not in stored or record in records[:place])
            for place, record in enumerate(records)
        ]

    async def _query(self, text: str, mode: FetchMode, refers_to: TimeHint | None = None) -> Query:
        if mode is FetchMode.KEYWORD:
            return Query(text, mode, refers_to=refers_to)
        # Asked first: there the reads of one pack, which begin together, meet.
        embedded = await self._embedding.query(text)
        await self._embedding.settle(MOST_SETTLED_BY_A_READ)
        return Query(text, mode, embedded, refers_to)


def _insert_all(connection: sqlite3.Connection, records: Sequence[Record]) -> set[str]:
    """Insert what nobody has stored meanwhile; the ids of what was inserted."""
    stored: set[str] = set()
    held = rows.held(connection, [record.id for record in records])
    for record in records:
        if record.id not in held and record.id not in stored:
            rows.insert(connection, record, Layer.STORED, topics.written(connection, record.item, record.id))
            stored.add(record.id)
    return stored


def _hits(connection: sqlite3.Connection, found: Sequence[Found]) -> list[Hit]:
    items = rows.by_number(connection, [one.item for one in found])
    pieces = rows.pieces_by_number(connection, [one.piece for one in found])
    return [items[one.item].hit(one.score, pieces[one.piece]) for one in found]


def _believed(connection: sqlite3.Connection, query: Query, reach: Reach | None, limit: int) -> list[Hit]:
    if not limit:
        return []
    chosen = selection(MetaFilter(reach=reach), Layer.BELIEF)
    return _hits(connection, ranked(connection, query, chosen)[:limit])
