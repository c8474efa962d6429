"""Topics: what beliefs are drawn from together, and whether a build has read their newest word.

A topic is one document, or one thread's conversations at one node.  Its generation goes up with each
write and each forget; a build notes the generation it has read.  What was written meanwhile is seen by
the difference, whatever any clock says.
"""

import sqlite3
from collections.abc import Sequence

from tinymemory.engine import Item
from tinymemory.engines.sqlite import rows
from tinymemory.engines.sqlite.selection import scope
from tinymemory.items import Conversation, Learning
from tinymemory.meta import ItemKind
from tinymemory.namespace import Namespace, Reach


def written(connection: sqlite3.Connection, item: Item, id_: str) -> int | None:
    """Note that an item is written; the number of its topic, None when nothing is drawn from it."""
    if isinstance(item, Learning) or item.meta.derive is False:
        return None
    thread = item.meta.thread_id if isinstance(item, Conversation) else None
    key = (str(item.meta.namespace), item.kind.value, f"item {id_}" if thread is None else f"thread {thread}")
    connection.execute(
        "INSERT INTO topics (namespace, kind, name, generation) VALUES (?, ?, ?, 1) "
        "ON CONFLICT (namespace, kind, name) DO UPDATE SET generation = generation + 1",
        key,
    )
    (number,) = connection.execute(
        "SELECT number FROM topics WHERE namespace = ? AND kind = ? AND name = ?", key
    ).fetchone()
    return number


def forget(connection: sqlite3.Connection, numbers: Sequence[int]) -> None:
    """Remove stored items and every belief drawn from one; their topics owe a build of what is left."""
    grounds = rows.by_chunks(
        connection, "SELECT DISTINCT belief, topic FROM grounds WHERE source IN ({})", numbers
    )
    beliefs = list({belief for belief, _ in grounds})
    # A belief may rest on other topics as well, which then say it again.
    touched = {
        topic
        for (topic,) in (
            *rows.by_chunks(connection, "SELECT DISTINCT topic FROM grounds WHERE belief IN ({})", beliefs),
            *rows.by_chunks(
                connection,
                "SELECT DISTINCT topic FROM items WHERE topic IS NOT NULL AND number IN ({})",
                numbers,
            ),
        )
    }
    rows.remove(connection, [*beliefs, *numbers])
    for topic in touched:
        connection.execute(
            "UPDATE topics SET generation = generation + 1, seen = 0 WHERE number = ?", (topic,)
        )
        connection.execute(
            "DELETE FROM topics WHERE number = ? AND NOT EXISTS (SELECT 1 FROM items WHERE topic = ?)",
            (topic, topic),
        )


def unbuilt_topics(connection: sqlite3.Connection, reach: Reach, kinds: Sequence[ItemKind]) -> list[int]:
    """The topics in a scope that owe a build, the oldest first."""
    chosen = scope(reach, kinds)
    found = connection.execute(
        f"SELECT i.number FROM topics i WHERE i.built < i.generation AND {chosen.sql} ORDER BY i.number",
        chosen.parameters,
    )
    return [number for (number,) in found]


def unbuilt_scopes(connection: sqlite3.Connection, reach: Reach) -> list[tuple[Namespace, ItemKind]]:
    """The nodes, and the kinds there, that owe a build."""
    chosen = scope(reach, ())
    found = connection.execute(
        "SELECT DISTINCT i.namespace, i.kind FROM topics i "
        f"WHERE i.built < i.generation AND {chosen.sql} ORDER BY i.namespace, i.kind",
        chosen.parameters,
    )
    return [(Namespace.parse(namespace), ItemKind(kind)) for namespace, kind in found]


def count_scopes(connection: sqlite3.Connection, reach: Reach, kinds: Sequence[ItemKind]) -> int:
    """How many nodes hold something that beliefs are drawn from."""
    chosen = scope(reach, kinds)
    (count,) = connection.execute(
        f"SELECT count(DISTINCT i.namespace) FROM topics i WHERE {chosen.sql}", chosen.parameters
    ).fetchone()
    return count
