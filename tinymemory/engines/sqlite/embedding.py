"""Making vectors: for what is stored, for what is asked, and for what was left owed."""

import asyncio
import sqlite3
from collections.abc import Sequence
from dataclasses import replace

from tinymemory.engines.sqlite import index, rows
from tinymemory.engines.sqlite.database import Database
from tinymemory.engines.sqlite.embedder import Embedder, HashedEmbedder
from tinymemory.engines.sqlite.index import Embedded, Entry
from tinymemory.engines.sqlite.rows import Record
from tinymemory.errors import EngineError

_BATCH = 128


class Embedding:
    """An embedder at work on one file."""

    def __init__(self, database: Database, embedder: Embedder) -> None:
        self._database = database
        self._embedder = embedder
        self._asked: dict[tuple[asyncio.AbstractEventLoop, str], asyncio.Task[Embedded]] = {}

    @property
    def is_local(self) -> bool:
        """Whether a vector takes no call to elsewhere, so that nothing is won by leaving it owed."""
        return isinstance(self._embedder, HashedEmbedder)

    async def query(self, text: str) -> Embedded:
        """The vector of a question; those who ask the same at once, as a pack's sections do, share it."""
        key = asyncio.get_running_loop(), text
        task = self._asked.get(key)
        if task is None:
            task = self._asked[key] = asyncio.create_task(self._vector(text))
            task.add_done_callback(lambda task: self._answered(key, task))
        # Who goes away does not take the vector from the others.
        return await asyncio.shield(task)

    async def completed(self, records: Sequence[Record]) -> list[Record]:
        """The records with the vectors of their pieces."""
        made = iter(await self._entries([piece.embedded for record in records for piece in record.pieces]))
        return [replace(record, vectors=tuple(next(made) for _ in record.pieces)) for record in records]

    async def settle(self, most: int | None = None) -> None:
        """Make the vectors that are owed: for writes that did not wait, and after a change of embedder."""
        while most is None or most > 0:
            number, owed = await self._database.read(self._owed)
            if not owed:
                if number is None:
                    await self._database.write(lambda connection: index.register(connection, self._embedder))
                    continue
                return
            await self._settle(number or 0, owed)
            most = None if most is None else most - len(owed)

    def _owed(self, connection: sqlite3.Connection) -> tuple[int | None, dict[int, str]]:
        number = index.number_of(connection, self._embedder)
        if number is None:
            return (None, {}) if rows.newest(connection) else (0, {})
        pieces = rows.pieces_by_number(connection, index.owed(connection, number, _BATCH))
        return number, {key: piece.embedded for key, piece in pieces.items()}

    async def _settle(self, number: int, owed: dict[int, str]) -> None:
        pairs = list(zip(owed, await self._entries(list(owed.values())), strict=True))
        await self._database.write(lambda connection: index.settle(connection, number, pairs))

    async def _vector(self, text: str) -> Embedded:
        (vector,) = await self._vectors([text])
        return vector

    def _answered(self, key: tuple[asyncio.AbstractEventLoop, str], task: "asyncio.Task[Embedded]") -> None:
        del self._asked[key]
        if not task.cancelled():
            task.exception()  # seen, should nobody be left to hear of it

    async def _entries(self, texts: Sequence[str]) -> list[Entry]:
        embedded = await self._vectors(texts)
        return await asyncio.to_thread(lambda: list(map(Entry.of, embedded)))

    async def _vectors(self, texts: Sequence[str]) -> list[Embedded]:
        made = await self._embedder.embed(texts) if texts else []
        if len(made) != len(texts) or any(len(vector) != self._embedder.dimensions for vector in made):
            raise EngineError(
                f"the embedder `{self._embedder.id}` made other than one vector of "
                f"{self._embedder.dimensions} dimensions for each text"
            )
        return [Embedded(self._embedder, vector) for vector in made]
