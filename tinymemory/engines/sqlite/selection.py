"""A filter as SQL.

What SQL selects is what `MetaFilter.matches` selects, so that a page, a count and a ranking read no
row in vain.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import IntEnum

from tinymemory.meta import ItemKind, MetaFilter
from tinymemory.namespace import Reach
from tinymemory.redaction import redacted

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Layer(IntEnum):
    """What a row of `items` is: stored by a host, or built from what is stored."""

    STORED = 0
    BELIEF = 1


@dataclass(frozen=True, slots=True)
class Selection:
    """A condition on `items`, aliased `i`."""

    sql: str
    parameters: tuple[object, ...]

    def outside(self, reach: Reach) -> "Selection":
        """Of what is selected, what does not lie in a reach."""
        within = _within_reach(reach)
        return Selection(f"{self.sql} AND NOT ({within.sql})", self.parameters + within.parameters)

    def up_to(self, number: int) -> "Selection":
        """Of what is selected, what was stored no later than the item with this number."""
        return Selection(f"{self.sql} AND i.number <= ?", (*self.parameters, number))


def selection(filter: MetaFilter, layer: Layer = Layer.STORED) -> Selection:  # noqa: A002  # the wire's word
    """What of a layer a filter selects."""
    clauses = [_one("i.layer = ?", int(layer))]
    if filter.reach is not None:
        clauses.append(_within_reach(filter.reach))
    clauses += [
        _any_of(column, values)
        for column, values in (("kind", filter.kinds), ("source_kind", filter.sources))
        if values
    ]
    if filter.tags_any:
        tagged = _any_of("tag", filter.tags_any, table="t")
        sql = f"EXISTS (SELECT 1 FROM tags t WHERE t.item = i.number AND {tagged.sql})"
        clauses.append(Selection(sql, tagged.parameters))
    clauses += [
        _one(f"i.{column} = ?", wanted)
        for column, wanted in (
            ("workspace", filter.workspace),
            ("language", filter.language),
            ("repo", filter.repo),
            ("git_commit", filter.commit),
            ("url", filter.url),
            ("tool_call", filter.tool_call),
            ("first_turn", filter.turns and filter.turns.first),
            ("last_turn", filter.turns and filter.turns.last),
        )
        if wanted is not None
    ]
    clauses += [
        _any_of(column, (wanted, redacted(wanted)))
        for column, wanted in (
            ("thread_id", filter.thread_id),
            ("agent_id", filter.agent_id),
            ("source_id", filter.source_id),
        )
        if wanted is not None
    ]
    clauses += [
        _at_or_below(column, path.rstrip("/"), "/")
        for column, path in (("folder", filter.folder), ("file_path", filter.file_path))
        if path is not None
    ]
    if filter.observed_after is not None:
        clauses.append(_one("i.observed_at >= ?", microseconds(filter.observed_after)))
    if filter.observed_before is not None:
        clauses.append(_one("i.observed_at < ?", microseconds(filter.observed_before)))
    return _all_of(clauses)


def scope(reach: Reach, kinds: Sequence[ItemKind]) -> Selection:
    """The rows of a table `i` with a namespace and a kind that lie in a reach; no kinds are all."""
    kind = [_any_of("kind", kinds)] if kinds else []
    return _all_of([_within_reach(reach), *kind])


def microseconds(at: datetime) -> int:
    """An instant as a whole number that sorts as it does."""
    return (at - _EPOCH) // timedelta(microseconds=1)


def instant(at: int) -> datetime:
    """The instant of a number of microseconds."""
    return _EPOCH + timedelta(microseconds=at)


def _within_reach(reach: Reach) -> Selection:
    nodes = _any_of("namespace", [str(node) for node in reach.nodes()])
    if not reach.descendants:
        return nodes
    if reach.at.is_root:
        return Selection("1", ())
    below = _at_or_below("namespace", str(reach.at), "/")
    return (
        below
        if not reach.inherit
        else Selection(f"({nodes.sql} OR {below.sql})", nodes.parameters + below.parameters)
    )


def _at_or_below(column: str, path: str, separator: str) -> Selection:
    # `LIKE` would read `%`, `_` and case its own way; a range compares bytes, as Python does here.
    after = chr(ord(separator) + 1)
    # The first two comparisons are the whole range of it, which an index can seek; the others leave out
    # what a lesser character than the separator follows.
    sql = f"(i.{column} >= ? AND i.{column} < ? AND (i.{column} = ? OR i.{column} >= ?))"
    return Selection(sql, (path, path + after, path, path + separator))


def _any_of(column: str, values: Sequence[object], *, table: str = "i") -> Selection:
    marks = ", ".join("?" * len(values))
    return Selection(f"{table}.{column} IN ({marks})", tuple(map(str, values)))


def _one(sql: str, value: object) -> Selection:
    return Selection(sql, (value,))


def _all_of(clauses: Sequence[Selection]) -> Selection:
    return Selection(
        " AND ".join(clause.sql for clause in clauses),
        tuple(parameter for clause in clauses for parameter in clause.parameters),
    )
