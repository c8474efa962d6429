"""The index of vectors: which piece lies where, as each embedder sees it.

Vectors of different embedders live side by side, so that processes configured differently share a
file, and a change of embedder is no more than new vectors for old pieces.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tinymemory.engines.sqlite import vectors
from tinymemory.engines.sqlite.embedder import Embedder


@dataclass(frozen=True, slots=True)
class Embedded:
    """A text's vector and who made it."""

    embedder: Embedder
    vector: Sequence[float]


@dataclass(frozen=True, slots=True)
class Entry:
    """A vector as the index keeps it, worked out before the write lock is held."""

    embedder: Embedder
    bits: bytes
    components: bytes
    length: float
    """0 for a vector of zeros, which is not kept."""

    @classmethod
    def of(cls, embedded: Embedded) -> "Entry":
        """What is kept of a vector."""
        return cls(embedded.embedder, vectors.signature(embedded.vector), *vectors.quantised(embedded.vector))


def number_of(connection: sqlite3.Connection, embedder: Embedder) -> int | None:
    """The embedder's number in this file; None when it has embedded nothing here."""
    row = connection.execute(
        "SELECT number FROM embedders WHERE id = ? AND dimensions = ?", (embedder.id, embedder.dimensions)
    ).fetchone()
    return None if row is None else row[0]


def register(connection: sqlite3.Connection, embedder: Embedder) -> int:
    """The embedder's number; a new one owes vectors for all there is."""
    number = number_of(connection, embedder)
    if number is None:
        number = connection.execute(
            "INSERT INTO embedders (id, dimensions) VALUES (?, ?)", (embedder.id, embedder.dimensions)
        ).lastrowid
        assert number is not None
        connection.execute("INSERT INTO owed (embedder, piece) SELECT ?, number FROM pieces", (number,))
    return number


def add(connection: sqlite3.Connection, pieces: Sequence[int], entries: Sequence[Entry] = ()) -> None:
    """Enter new pieces: with the vectors made, and as owed by every embedder that has made none."""
    connection.executemany(
        "INSERT INTO owed (embedder, piece) SELECT number, ? FROM embedders", [(piece,) for piece in pieces]
    )
    if entries:
        settle(connection, register(connection, entries[0].embedder), list(zip(pieces, entries, strict=True)))


def owed(connection: sqlite3.Connection, embedder: int, limit: int) -> list[int]:
    """Pieces that the embedder has made no vector for, the oldest first."""
    rows = connection.execute(
        "SELECT piece FROM owed WHERE embedder = ? ORDER BY piece LIMIT ?", (embedder, limit)
    )
    return [piece for (piece,) in rows]


def settle(connection: sqlite3.Connection, embedder: int, made: Iterable[tuple[int, Entry]]) -> None:
    """Keep vectors that were owed; of a piece that is gone meanwhile, or done by another, nothing is kept."""
    kept: list[tuple[int, Entry]] = []
    for piece, entry in made:
        taken = connection.execute("DELETE FROM owed WHERE embedder = ? AND piece = ?", (embedder, piece))
        if taken.rowcount and entry.length:
            kept.append((piece, entry))
    connection.executemany(
        "INSERT INTO signatures (piece, embedder, bits) VALUES (?, ?, ?)",
        [(piece, embedder, entry.bits) for piece, entry in kept],
    )
    connection.executemany(
        "INSERT INTO vectors (piece, embedder, components, length) VALUES (?, ?, ?, ?)",
        [(piece, embedder, entry.components, entry.length) for piece, entry in kept],
    )
