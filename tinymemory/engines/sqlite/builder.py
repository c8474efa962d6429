"""Builds: beliefs drawn from the topics that changed, and kept while what they rest on is stored."""

import hashlib
import json
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tinymemory.engines.sqlite import rows, topics
from tinymemory.engines.sqlite.database import Database
from tinymemory.engines.sqlite.distiller import Distiller, Draft, Material, Source
from tinymemory.engines.sqlite.embedding import Embedding
from tinymemory.engines.sqlite.rows import Record, Stored
from tinymemory.engines.sqlite.selection import Layer
from tinymemory.engines.sqlite.words import words
from tinymemory.items import Learning
from tinymemory.meta import MemoryMeta
from tinymemory.query import ConsolidateReceipt, ConsolidateRequest, ConsolidateStatus
from tinymemory.text import is_blank, trimmed

BELIEF = "belief"
"""The tag of every belief."""

_TOGETHER = 64
_AT_LATEST = 1.0  # seconds of distilling that a crash may cost


@dataclass(frozen=True, slots=True)
class _Topic:
    """A topic as a build has read it."""

    number: int
    generation: int
    sources: tuple[Stored, ...]
    material: Material


@dataclass(frozen=True, slots=True)
class _Belief:
    record: Record
    grounds: tuple[int, ...]


class Builder:
    """Runs a distiller over what changed."""

    def __init__(self, database: Database, distiller: Distiller, embedding: Embedding) -> None:
        self._database = database
        self._distiller = distiller
        self._embedding = embedding

    async def build(self, request: ConsolidateRequest) -> ConsolidateReceipt:
        """Build what the scope owes, topic by topic; a failure keeps what was built before it."""
        scope = request.reach, request.kinds
        owed = await self._database.read(lambda connection: topics.unbuilt_topics(connection, *scope))
        built = await self._build(owed)
        await self._embedding.settle()
        return ConsolidateReceipt(
            status=ConsolidateStatus.COMPLETED,
            scopes=await self._database.read(lambda connection: topics.count_scopes(connection, *scope)),
            built=built,
        )

    async def _build(self, owed: Sequence[int]) -> int:
        built = 0
        done: list[tuple[_Topic, list[_Belief]]] = []
        since = time.monotonic()
        try:
            for number in owed:
                # Read only now: what was forgotten since the build began is never shown to a model.
                topic = await self._database.read(lambda connection, number=number: _read(connection, number))
                if topic is None:
                    continue
                done.append((topic, _beliefs(topic, await self._distiller.distill(topic.material))))
                if len(done) >= _TOGETHER or time.monotonic() - since > _AT_LATEST:
                    built += await self._keep(done)
                    done, since = [], time.monotonic()
        finally:
            built += await self._keep(done)
        return built

    async def _keep(self, done: Sequence[tuple[_Topic, list[_Belief]]]) -> int:
        if not done:
            return 0
        if self._embedding.is_local:
            done = [(topic, await self._embedded(beliefs)) for topic, beliefs in done]
        return await self._database.write(
            lambda connection: sum(_keep(connection, topic, beliefs) for topic, beliefs in done)
        )

    async def _embedded(self, beliefs: Sequence[_Belief]) -> list[_Belief]:
        records = await self._embedding.completed([belief.record for belief in beliefs])
        return [_Belief(record, belief.grounds) for record, belief in zip(records, beliefs, strict=True)]


def _read(connection: sqlite3.Connection, number: int) -> _Topic | None:
    """The topic's sources and what is believed from them; None when nothing is owed any more."""
    row = connection.execute(
        "SELECT generation, seen FROM topics WHERE number = ? AND built < generation", (number,)
    ).fetchone()
    if row is None:
        return None
    generation, seen = row
    numbers = [
        found for (found,) in connection.execute("SELECT number FROM items WHERE topic = ?", (number,))
    ]
    stored = sorted(rows.by_number(connection, numbers).values(), key=_place)
    sources = tuple(Source(one.id, one.item, is_new=one.number > seen) for one in stored)
    return _Topic(number, generation, tuple(stored), Material(sources, _held(connection, number)))


def _place(stored: Stored) -> tuple[int, float, int]:
    turns, at = stored.item.meta.turns, stored.item.meta.observed_at
    return (turns.first if turns else 0, at.timestamp() if at else 0.0, stored.number)


def _held(connection: sqlite3.Connection, topic: int) -> tuple[Draft, ...]:
    grounds: dict[int, list[str]] = {}
    for belief, source in connection.execute(
        "SELECT g.belief, s.id FROM grounds g JOIN items s ON s.number = g.source WHERE g.topic = ? "
        "ORDER BY g.belief, g.source",
        (topic,),
    ):
        grounds.setdefault(belief, []).append(source)
    held = rows.by_number(connection, list(grounds))
    return tuple(
        Draft(item.text, tuple(sources), item.learning_kind, item.confidence)
        for belief, sources in grounds.items()
        if isinstance(item := held[belief].item, Learning)
    )


def _beliefs(topic: _Topic, drafts: Sequence[Draft]) -> list[_Belief]:
    """The drafts as beliefs at their source's node; what says the same is one, on all of its grounds."""
    grounds: dict[str, dict[int, Stored]] = {}
    texts: dict[str, Draft] = {}
    by_id = {stored.id: stored for stored in topic.sources}
    for draft in drafts:
        if is_blank(draft.text):
            continue
        id_ = _id_of(topic, draft.text)
        texts.setdefault(id_, draft)
        sources = [by_id[source] for source in draft.evidence if source in by_id] or topic.sources
        grounds.setdefault(id_, {}).update((source.number, source) for source in sources)
    return [
        _Belief(Record.of(_learning(draft, list(grounds[id_].values())), id_), tuple(grounds[id_]))
        for id_, draft in texts.items()
    ]


def _id_of(topic: _Topic, text: str) -> str:
    """The same for all spellings of a fact at one node, so that it is believed there once."""
    place = str(topic.sources[0].item.meta.namespace)
    said = " ".join(words(text)) or trimmed(text)
    return hashlib.sha256(json.dumps([BELIEF, place, said]).encode()).hexdigest()[:40]


def _learning(draft: Draft, sources: Sequence[Stored]) -> Learning:
    observed = [at for source in sources if (at := source.item.meta.observed_at) is not None]
    return Learning(
        text=trimmed(draft.text),
        kind=draft.kind,
        confidence=draft.confidence,
        evidence=sources[0].id,
        meta=MemoryMeta(
            namespace=sources[0].item.meta.namespace,
            tags=(BELIEF,),
            observed_at=max(observed, default=None),
        ),
    )


def _keep(connection: sqlite3.Connection, topic: _Topic, beliefs: Sequence[_Belief]) -> int:
    """Let a topic's beliefs be these; how many are new.

    Nothing is kept when one of the sources was forgotten while they were distilled, or another build
    has read as much.
    """
    row = connection.execute("SELECT built FROM topics WHERE number = ?", (topic.number,)).fetchone()
    if row is None or row[0] >= topic.generation or not _all_there(connection, topic):
        return 0
    before = connection.execute(
        "SELECT DISTINCT belief FROM grounds WHERE topic = ?", (topic.number,)
    ).fetchall()
    connection.execute("DELETE FROM grounds WHERE topic = ?", (topic.number,))
    held = rows.held(connection, [belief.record.id for belief in beliefs], Layer.BELIEF)
    for belief in beliefs:
        number = held.get(belief.record.id) or rows.insert(connection, belief.record, Layer.BELIEF)
        connection.executemany(
            "INSERT INTO grounds (belief, source, topic) VALUES (?, ?, ?)",
            [(number, source, topic.number) for source in belief.grounds],
        )
    rows.remove(connection, _groundless(connection, [number for (number,) in before]))
    connection.execute(
        "UPDATE topics SET built = ?, seen = ? WHERE number = ?",
        (topic.generation, max(source.number for source in topic.sources), topic.number),
    )
    return len(beliefs) - len(held)


def _all_there(connection: sqlite3.Connection, topic: _Topic) -> bool:
    numbers = [source.number for source in topic.sources]
    there = rows.by_chunks(connection, "SELECT number FROM items WHERE number IN ({})", numbers)
    return bool(numbers) and len(there) == len(numbers)


def _groundless(connection: sqlite3.Connection, beliefs: Sequence[int]) -> list[int]:
    grounded = {
        belief
        for (belief,) in rows.by_chunks(
            connection, "SELECT DISTINCT belief FROM grounds WHERE belief IN ({})", beliefs
        )
    }
    return [belief for belief in beliefs if belief not in grounded]
