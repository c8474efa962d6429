"""Ranking: which pieces a query finds, by words, by vectors, and by both."""

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tinymemory.engines.sqlite import vectors
from tinymemory.engines.sqlite.index import Embedded, number_of
from tinymemory.engines.sqlite.selection import Selection, instant
from tinymemory.engines.sqlite.words import any_of
from tinymemory.query import FetchMode, TimeHint

DEPTH = 1_000
"""How many pieces each ranking goes down; a fetch ends there."""

_CONTEXT_WEIGHT = 0.5
_FUSION = 60
_KEYWORD_WEIGHT = 1.0
_VECTOR_WEIGHT = 0.5


@dataclass(frozen=True, slots=True)
class Query:
    """What is looked for, and how."""

    text: str
    mode: FetchMode
    embedded: Embedded | None = None
    refers_to: TimeHint | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """An item, by the best of its pieces."""

    item: int
    piece: int
    score: float


def ranked(connection: sqlite3.Connection, query: Query, chosen: Selection) -> list[Found]:
    """What a query finds in a selection, best first, each item once."""
    match query.mode:
        case FetchMode.KEYWORD:
            found = _by_words(connection, query.text, chosen)
        case FetchMode.VECTOR:
            found = _by_vector(connection, query.embedded, chosen)
        case FetchMode.HYBRID:
            found = _fused(
                (_by_words(connection, query.text, chosen), _KEYWORD_WEIGHT),
                (_by_vector(connection, query.embedded, chosen), _VECTOR_WEIGHT),
            )
    return found if query.refers_to is None else _hinted(connection, query.refers_to, found)


def _by_words(connection: sqlite3.Connection, text: str, chosen: Selection) -> list[Found]:
    expression = any_of(text)
    if expression is None:
        return []
    rows = connection.execute(
        f"""
        SELECT i.number, p.number, bm25(words, 1.0, {_CONTEXT_WEIGHT}) AS score
        FROM words JOIN pieces p ON p.number = words.rowid JOIN items i ON i.number = p.item
        WHERE words MATCH ? AND {chosen.sql}
        ORDER BY score, p.number LIMIT {DEPTH}
        """,
        (expression, *chosen.parameters),
    )
    return _each_once(Found(item, piece, -score) for item, piece, score in rows)


def _by_vector(connection: sqlite3.Connection, wanted: Embedded | None, chosen: Selection) -> list[Found]:
    embedder = wanted and number_of(connection, wanted.embedder)
    if wanted is None or embedder is None or not any(wanted.vector):
        return []
    rows = connection.execute(
        f"""
        SELECT i.number, p.number, s.bits
        FROM items i JOIN pieces p ON p.item = i.number JOIN signatures s ON s.piece = p.number
        WHERE s.embedder = ? AND {chosen.sql}
        """,
        (embedder, *chosen.parameters),
    ).fetchall()
    items = {piece: item for item, piece, _ in rows}
    short = vectors.nearest(
        vectors.signature(wanted.vector), ((piece, bits) for _, piece, bits in rows), DEPTH
    )
    kept = _components(connection, embedder, short)
    query = vectors.unit(wanted.vector)
    near: float = getattr(wanted.embedder, "near", 0.0)
    scored = [Found(items[piece], piece, vectors.cosine(query, found)) for piece, found in kept]
    return _each_once(
        sorted((one for one in scored if one.score > near), key=lambda one: (-one.score, one.piece))
    )


def _components(
    connection: sqlite3.Connection, embedder: int, pieces: Sequence[int]
) -> Iterable[tuple[int, bytes]]:
    marks = ", ".join("?" * len(pieces))
    return connection.execute(
        f"SELECT piece, components FROM vectors WHERE embedder = ? AND piece IN ({marks})",
        (embedder, *pieces),
    )


def _fused(*rankings: tuple[list[Found], float]) -> list[Found]:
    """Reciprocal rank fusion; the piece shown is that of the first ranking that has the item."""
    scores: dict[int, float] = {}
    pieces: dict[int, int] = {}
    for found, weight in rankings:
        for rank, one in enumerate(found, start=1):
            scores[one.item] = scores.get(one.item, 0.0) + weight / (_FUSION + rank)
            pieces.setdefault(one.item, one.piece)
    best = sorted(scores, key=lambda item: (-scores[item], item))
    return [Found(item, pieces[item], scores[item]) for item in best]


def _each_once(found: Iterable[Found]) -> list[Found]:
    best: dict[int, Found] = {}
    for one in found:
        best.setdefault(one.item, one)
    return list(best.values())


def _hinted(connection: sqlite3.Connection, hint: TimeHint, found: list[Found]) -> list[Found]:
    marks = ", ".join("?" * len(found))
    rows = connection.execute(
        f"SELECT number, observed_at FROM items WHERE number IN ({marks}) AND observed_at IS NOT NULL",
        [one.item for one in found],
    )
    lifted = {number for number, at in rows if hint.covers(instant(at))}
    return sorted(found, key=lambda one: one.item not in lifted)
