"""Counting what is stored by a facet, in SQL."""

import sqlite3
from dataclasses import dataclass

from tinymemory.engines.sqlite.selection import selection
from tinymemory.query import ExploreRequest, Facet

_COLUMN_OF = {facet: facet.value for facet in Facet if facet is not Facet.TAG} | {
    Facet.SOURCE: "source_kind",
    Facet.THREAD: "thread_id",
    Facet.AGENT: "agent_id",
}


@dataclass(frozen=True, slots=True)
class Counted:
    """How many items have each value, of those within the scan limit."""

    values: dict[str, int]
    total: int
    missing: int
    more: bool
    """Whether the scan limit left items out."""


def count(connection: sqlite3.Connection, request: ExploreRequest) -> Counted:
    """Count the items of a filter; those stored first are within the scan limit."""
    chosen = selection(request.filter)
    column = _COLUMN_OF.get(request.facet, "number")
    scanned = (
        f"SELECT i.number, i.{column} AS value FROM items i WHERE {chosen.sql} ORDER BY i.number LIMIT ?"
    )
    (found,) = connection.execute(
        f"SELECT count(*) FROM ({scanned})", (*chosen.parameters, request.scan_limit + 1)
    ).fetchone()
    values: dict[str | None, int] = dict(
        connection.execute(
            _per_value(request.facet, scanned), (*chosen.parameters, request.scan_limit)
        ).fetchall()
    )
    missing = values.pop(None, 0)
    return Counted(
        {value: count for value, count in values.items() if value is not None},
        total=min(found, request.scan_limit),
        missing=missing,
        more=found > request.scan_limit,
    )


def _per_value(facet: Facet, scanned: str) -> str:
    if facet is Facet.TAG:
        return (
            f"SELECT t.tag, count(*) FROM ({scanned}) s LEFT JOIN tags t ON t.item = s.number GROUP BY t.tag"
        )
    return f"SELECT s.value, count(*) FROM ({scanned}) s GROUP BY s.value"
