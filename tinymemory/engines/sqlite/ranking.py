"""Ranking: which pieces a query finds, by words, by vectors, and by both."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tinymemory.engines.sqlite import rows, vectors
from tinymemory.engines.sqlite.index import Embedded, number_of
from tinymemory.engines.sqlite.selection import Selection, instant
from tinymemory.engines.sqlite.words import any_of
from tinymemory.query import FetchMode, TimeHint

DEPTH = 1_000
"""How many pieces each ranking goes down; a fetch ends there."""

_SHORT_LIST = 200
"""How many vectors a hybrid fetch compares exactly; a fetch by vectors alone goes as deep as any."""
_ENOUGH = 50
_LIGHT = 0.5
"""Where words find as many items as are enough, an embedder of a lesser weight looks at these alone."""
_CONTEXT_WEIGHT = 0.5
_FUSION = 60
# What a turn lends to those behind it and before it: an answer often has no word of the question that
# the turn before it repeats.
_LENT_ONWARD, _LENT_BACK, _LENT_AS_FAR_AS = 0.4, 0.25, 2
_LENDERS = 60


@dataclass(frozen=True, slots=True)
class Query:
    """What is looked for, and how."""

    text: str
    mode: FetchMode
    embedded: Embedded | None = None
    refers_to: TimeHint | None = None


class Found(NamedTuple):  # a tuple, because a fetch makes thousands
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
            found = _by_vector(connection, query.embedded, chosen, DEPTH)
        case FetchMode.HYBRID:
            by_words = _by_words(connection, query.text, chosen)
            by_words = _in_conversation(connection, by_words, chosen)
            by_vector = _beside(connection, query.embedded, chosen, by_words)
            found = _fused((by_words, 1.0), (by_vector, _weight(query.embedded)))
    return found if query.refers_to is None else _hinted(connection, query.refers_to, found)


def _by_words(connection: sqlite3.Connection, text: str, chosen: Selection) -> list[Found]:
    expression = any_of(text)
    if expression is None:
        return []
    scored = connection.execute(
        f"""
        SELECT i.number, p.number, bm25(words, 1.0, {_CONTEXT_WEIGHT}) AS score
        FROM words JOIN pieces p ON p.number = words.rowid JOIN items i ON i.number = p.item
        WHERE words MATCH ? AND {chosen.sql}
        ORDER BY score, p.number LIMIT {DEPTH}
        """,
        (expression, *chosen.parameters),
    )
    return _each_once(Found(item, piece, -score) for item, piece, score in scored)


def _in_conversation(
    connection: sqlite3.Connection, found: Sequence[Found], chosen: Selection
) -> list[Found]:
    """The same ranking, each turn of a conversation with a part of what its neighbours score.

    Measured on conversations, a seventh more of what was asked for is among the first ten.
    """
    scores = {one.item: one.score for one in found}
    pieces = {one.item: one.piece for one in found}
    lenders = {one.item: one.score for one in found[:_LENDERS]}
    for lender, borrower, piece, distance in _neighbours(connection, list(lenders), chosen):
        share = _LENT_ONWARD if distance > 0 else _LENT_BACK
        scores[borrower] = scores.get(borrower, 0.0) + lenders[lender] * share / abs(distance)
        pieces.setdefault(borrower, piece)
    best = sorted(scores, key=lambda item: (-scores[item], item))
    return [Found(item, pieces[item], scores[item]) for item in best]


def _neighbours(
    connection: sqlite3.Connection, lenders: Sequence[int], chosen: Selection
) -> Iterable[tuple[int, int, int, int]]:
    """Lender, borrower, the borrower's first piece, and how many turns behind the lender it stands."""
    marks = ", ".join("?" * len(lenders))
    return connection.execute(
        f"""
        SELECT n.number, i.number, (SELECT min(p.number) FROM pieces p WHERE p.item = i.number),
            i.first_turn - n.first_turn
        FROM items n CROSS JOIN items i ON i.thread_id = n.thread_id
            AND i.first_turn BETWEEN n.first_turn - {_LENT_AS_FAR_AS} AND n.first_turn + {_LENT_AS_FAR_AS}
            AND i.first_turn <> n.first_turn AND i.namespace = n.namespace
        WHERE n.number IN ({marks}) AND n.kind = 'conversation' AND i.kind = 'conversation' AND {chosen.sql}
        """,
        (*lenders, *chosen.parameters),
    )


def _beside(
    connection: sqlite3.Connection, wanted: Embedded | None, chosen: Selection, by_words: Sequence[Found]
) -> list[Found]:
    """What vectors rank beside the words.

    Those of little weight lift nothing that no word found over what many words did: where words found
    enough they only compare the best of that, and the rest of the selection is not looked at.
    """
    if len(by_words) >= _ENOUGH and _weight(wanted) < _LIGHT:
        return _compared(connection, wanted, {one.piece: one.item for one in by_words[:_ENOUGH]})
    return _by_vector(connection, wanted, chosen, _SHORT_LIST)


def _by_vector(
    connection: sqlite3.Connection, wanted: Embedded | None, chosen: Selection, depth: int
) -> list[Found]:
    embedder = wanted and number_of(connection, wanted.embedder)
    if wanted is None or embedder is None or not any(wanted.vector):
        return []
    signed = connection.execute(
        f"""
        SELECT i.number, p.number, s.bits
        FROM items i JOIN pieces p ON p.item = i.number JOIN signatures s ON s.piece = p.number
        WHERE s.embedder = ? AND {chosen.sql}
        """,
        (embedder, *chosen.parameters),
    ).fetchall()
    items = {piece: item for item, piece, _ in signed}
    bits = ((piece, signature) for _, piece, signature in signed)
    short = vectors.nearest(vectors.signature(wanted.vector), bits, depth)
    return _compared(connection, wanted, {piece: items[piece] for piece in short})


def _compared(
    connection: sqlite3.Connection, wanted: Embedded | None, items: Mapping[int, int]
) -> list[Found]:
    """The items of these pieces that are near enough, the nearest first."""
    embedder = wanted and number_of(connection, wanted.embedder)
    if wanted is None or embedder is None or not any(wanted.vector):
        return []
    query = vectors.unit(wanted.vector)
    near: float = getattr(wanted.embedder, "near", 0.0)
    scored = [
        Found(items[piece], piece, vectors.product(query, kept) / length)
        for piece, kept, length in _components(connection, embedder, list(items))
    ]
    scored.sort(key=lambda one: (-one.score, one.piece))
    return _each_once(one for one in scored if one.score > near)


def _weight(wanted: Embedded | None) -> float:
    return getattr(wanted.embedder, "weight", 1.0) if wanted else 0.0


def _components(
    connection: sqlite3.Connection, embedder: int, pieces: Sequence[int]
) -> Iterable[tuple[int, bytes, float]]:
    sql = f"SELECT piece, components, length FROM vectors WHERE embedder = {embedder} AND piece IN ({{}})"
    return rows.by_chunks(connection, sql, pieces)


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
    sql = "SELECT number, observed_at FROM items WHERE observed_at IS NOT NULL AND number IN ({})"
    dated = rows.by_chunks(connection, sql, [one.item for one in found])
    lifted = {number for number, at in dated if hint.covers(instant(at))}
    return sorted(found, key=lambda one: one.item not in lifted)
