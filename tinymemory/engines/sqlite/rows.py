"""Items as rows: how they are written, read back and removed."""

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pydantic import TypeAdapter

from tinymemory.engine import Item
from tinymemory.engines.sqlite import index
from tinymemory.engines.sqlite.index import Entry
from tinymemory.engines.sqlite.pieces import Piece, pieces_of
from tinymemory.engines.sqlite.selection import Layer, Selection, microseconds
from tinymemory.engines.sqlite.words import indexed
from tinymemory.items import StoreItem
from tinymemory.meta import ItemKind, MemoryMeta
from tinymemory.query import Hit

_ITEM: TypeAdapter[Item] = TypeAdapter(StoreItem)
_AT_ONCE = 500  # parameters of one statement
_SMALL = 2_000  # characters of an item that is kept in memory once it was read
_PAGES_MERGED = 2_000  # 8 MiB of index


@dataclass(frozen=True, slots=True)
class Record:
    """An item ready to be written: all that takes thought is done before the write lock is held."""

    id: str
    item: Item
    pieces: tuple[Piece, ...]
    vectors: tuple[Entry, ...] = ()
    """One a piece, or none yet."""

    @classmethod
    def of(cls, item: Item, id: str | None = None) -> "Record":  # noqa: A002  # the wire's word
        """What is written for an item, under its fingerprint unless another id is named."""
        return cls(id or item.fingerprint(), item, tuple(pieces_of(item)))


@dataclass(frozen=True, slots=True)
class Stored:
    """An item as it is read back; `id` is the one it was stored with, never computed again."""

    number: int
    id: str
    item: Item

    def hit(self, score: float = 0.0, piece: Piece | None = None) -> Hit:
        """The item as a hit: whole, or as the piece that was found, with where that lies."""
        meta = self.item.meta
        if piece is not None and piece.whole:
            piece = None
        return Hit(
            id=self.id,
            kind=self.item.kind,
            text=self.item.render_text() if piece is None else piece.text,
            meta=meta if piece is None else meta.model_copy(update={"tags": (*meta.tags, *piece.tags)}),
            score=score,
            confidence=self.item.confidence,
        )


def insert(connection: sqlite3.Connection, record: Record, layer: Layer, topic: int | None = None) -> int:
    """Write an item, which must not be there; its number."""
    item, meta = record.item, record.item.meta
    row: dict[str, Any] = {
        "layer": int(layer),
        "id": record.id,
        "kind": item.kind.value,
        "namespace": str(meta.namespace),
        "source_kind": meta.source.kind.value,
        "source_id": meta.source.id,
        "workspace": meta.workspace,
        "folder": meta.folder,
        "file_path": meta.file_path,
        "language": meta.language,
        "repo": meta.repo,
        "git_commit": meta.commit,
        "url": meta.url,
        "thread_id": meta.thread_id,
        "first_turn": meta.turns and meta.turns.first,
        "last_turn": meta.turns and meta.turns.last,
        "agent_id": meta.agent_id,
        "tool_call": meta.tool_call and meta.tool_call.name,
        "observed_at": None if meta.observed_at is None else microseconds(meta.observed_at),
        "topic": topic,
        "meta": meta.model_dump_json(),
        "content": item.model_dump_json(exclude={"meta"}),
    }
    columns, marks = ", ".join(row), ", ".join("?" * len(row))
    cursor = connection.execute(
        f"INSERT INTO items ({columns}) VALUES ({marks})",
        tuple(row.values()),
    )
    number = cursor.lastrowid
    assert number is not None
    connection.executemany(
        "INSERT INTO tags (item, tag) VALUES (?, ?)", [(number, tag) for tag in dict.fromkeys(meta.tags)]
    )
    index.add(
        connection, [_insert_piece(connection, number, piece) for piece in record.pieces], record.vectors
    )
    return number


def _insert_piece(connection: sqlite3.Connection, item: int, piece: Piece) -> int:
    number = connection.execute(
        "INSERT INTO pieces (item, whole, page, section, text, context) VALUES (?, ?, ?, ?, ?, ?)",
        (item, piece.whole, piece.page, piece.section, piece.text, piece.context),
    ).lastrowid
    connection.execute(
        "INSERT INTO words (rowid, text, context) VALUES (?, ?, ?)",
        (number, indexed(piece.text), indexed(piece.context)),
    )
    assert number is not None
    return number


def held(connection: sqlite3.Connection, ids: Iterable[str], layer: Layer = Layer.STORED) -> dict[str, int]:
    """The numbers of those of the ids that are there."""
    sql = f"SELECT id, number FROM items WHERE layer = {int(layer)} AND id IN ({{}})"
    return dict(by_chunks(connection, sql, list(ids)))


def by_id(connection: sqlite3.Connection, ids: Sequence[str]) -> dict[str, Stored]:
    """The stored items with these ids."""
    rows = by_chunks(connection, f"SELECT {_COLUMNS} FROM items i WHERE layer = 0 AND id IN ({{}})", ids)
    return {stored.id: stored for stored in map(_stored, rows)}


def by_number(connection: sqlite3.Connection, numbers: Sequence[int]) -> dict[int, Stored]:
    """The items with these numbers."""
    rows = by_chunks(connection, f"SELECT {_COLUMNS} FROM items i WHERE number IN ({{}})", numbers)
    return {stored.number: stored for stored in map(_stored, rows)}


def page(connection: sqlite3.Connection, chosen: Selection, *, after: int, limit: int) -> list[Stored]:
    """The first items of a selection that were stored after a number, in the order they were stored."""
    # An index selects and sorts the numbers; only the rows of the page are looked at.
    numbers = f"SELECT i.number FROM items i WHERE {chosen.sql} AND i.number > ? ORDER BY i.number LIMIT ?"
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM items i WHERE i.number IN ({numbers}) ORDER BY i.number",
        (*chosen.parameters, after, limit),
    )
    return [_stored(row) for row in rows]


def newest_first(connection: sqlite3.Connection, chosen: Selection, *, limit: int) -> list[Stored]:
    """The items of a selection observed last, undated ones last of all."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM items i WHERE {chosen.sql} "
        "ORDER BY i.observed_at IS NULL, i.observed_at DESC, i.number DESC LIMIT ?",
        (*chosen.parameters, limit),
    )
    return [_stored(row) for row in rows]


def by_recency(connection: sqlite3.Connection, chosen: Selection) -> list[int]:
    """The numbers of a selection in the order of `MemoryEngine.newest`."""
    rows = connection.execute(
        f"SELECT i.number FROM items i WHERE {chosen.sql} ORDER BY i.observed_at DESC NULLS LAST, "
        f"CASE i.kind WHEN '{ItemKind.LEARNING}' THEN json_extract(i.content, '$.confidence') END "
        "DESC NULLS LAST, i.last_turn DESC NULLS LAST, i.number",
        chosen.parameters,
    )
    return [number for (number,) in rows]


def newest(connection: sqlite3.Connection) -> int:
    """The number of the item written last; 0 when there is none."""
    (number,) = connection.execute("SELECT coalesce(max(number), 0) FROM items").fetchone()
    return number


def metas(connection: sqlite3.Connection, chosen: Selection) -> list[tuple[int, ItemKind, MemoryMeta]]:
    """Number, kind and metadata of all that is selected, without reading any content."""
    rows = connection.execute(
        f"SELECT i.number, i.kind, i.meta FROM items i WHERE {chosen.sql}", chosen.parameters
    )
    return [(number, ItemKind(kind), MemoryMeta.model_validate_json(meta)) for number, kind, meta in rows]


def remove(connection: sqlite3.Connection, numbers: Sequence[int]) -> None:
    """Remove items with their pieces, words and vectors."""
    pieces = by_chunks(connection, "SELECT number, text, context FROM pieces WHERE item IN ({})", numbers)
    connection.executemany(
        "INSERT INTO words (words, rowid, text, context) VALUES ('delete', ?, ?, ?)",
        [(number, indexed(text), indexed(context)) for number, text, context in pieces],
    )
    connection.executemany("DELETE FROM items WHERE number = ?", [(number,) for number in numbers])


def scrub(connection: sqlite3.Connection) -> None:
    """Take the words of what was removed out of the file and of memory, not only out of what is found.

    The index keeps them until it merges.  A merge of all of a very large index would hold the write
    lock for seconds, so one call does a part, and the next goes on.
    Source: https://www.sqlite.org/fts5.html, "The 'merge' Command".
    """
    _remembered.cache_clear()
    connection.execute("INSERT INTO words (words, rank) VALUES ('merge', ?)", (-_PAGES_MERGED,))


def pieces_by_number(connection: sqlite3.Connection, numbers: Sequence[int]) -> dict[int, Piece]:
    """The pieces with these numbers."""
    rows = by_chunks(
        connection,
        "SELECT number, text, context, page, section, whole FROM pieces WHERE number IN ({})",
        numbers,
    )
    return {row[0]: Piece(row[1], row[2], row[3], row[4], bool(row[5])) for row in rows}


_COLUMNS = "i.number, i.id, i.content, i.meta"


def _stored(row: tuple[int, str, str, str]) -> Stored:
    number, id_, content, meta = row
    is_small = len(content) + len(meta) <= _SMALL
    return Stored(number, id_, _remembered(content, meta) if is_small else _item(content, meta))


def _item(content: str, meta: str) -> Item:
    # One object of both: read together they cost two thirds of what they cost apart.
    return _ITEM.validate_json(f'{content[:-1]},"meta":{meta}}}')


# The sections of a pack, and one pack after another, show the same turns again and again; reading the
# JSON is most of what a row costs.
_remembered = lru_cache(maxsize=4096)(_item)


def by_chunks(connection: sqlite3.Connection, sql: str, values: Sequence[object]) -> list[Any]:
    """The rows of a statement whose `IN ({})` takes more values than one statement may."""
    rows: list[Any] = []
    for start in range(0, len(values), _AT_ONCE):
        some = values[start : start + _AT_ONCE]
        rows += connection.execute(sql.format(", ".join("?" * len(some))), some).fetchall()
    return rows
