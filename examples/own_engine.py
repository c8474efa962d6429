"""An engine of one's own, whole: memory in one file of JSON lines that host and workers share.

It answers by words alone and builds no beliefs, in as few lines as keep every promise an engine makes:

    pytest examples/own_engine.py                                   # all of them, checked
    TINYMEMORY_ENGINE_FACTORY=own_engine:make tinymemory worker     # jobs run on it

Every read looks at the whole file.  What to change for a database, and what the errors of an engine
mean to the workers, is in docs/engines.md.
"""

import asyncio
import fcntl
import json
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from pydantic import TypeAdapter

from tinymemory import (
    Citation,
    EngineDescriptor,
    EngineHealth,
    FetchMode,
    FetchPage,
    FetchRequest,
    ForgetReport,
    ForgetTarget,
    Hit,
    InvalidRequestError,
    ListPage,
    ListRequest,
    MemoryEngine,
    MetaFilter,
    Namespace,
    RecallAnswer,
    RecallRequest,
    StoreItem,
    StoreReceipt,
    UnavailableError,
)
from tinymemory.engine import Item

ITEM: TypeAdapter[Item] = TypeAdapter(StoreItem)
pytest_plugins = ["tinymemory.conformance.plugin"]


class Line(NamedTuple):
    """One stored item; lines are numbered for good, so that a listing goes on behind what is gone."""

    number: int
    id: str
    item: Item

    def hit(self, score: float = 0.0) -> Hit:
        """The item as reads answer it."""
        item = self.item
        return Hit(
            id=self.id,
            kind=item.kind,
            text=item.render_text(),
            meta=item.meta,
            score=score,
            confidence=item.confidence,
        )


class NotebookEngine(MemoryEngine):
    """Memory in the file at `path`, which any number of processes may share."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def descriptor(self) -> EngineDescriptor:
        """What the engine can do: fetches by words."""
        return EngineDescriptor(
            id="notebook",
            label="Notebook",
            description="One file of JSON lines.",
            fetch_modes=(FetchMode.KEYWORD,),
        )

    async def health(self) -> EngineHealth:
        """Down when the file cannot be had."""
        try:
            await asyncio.to_thread(self._read)
        except UnavailableError as error:
            return EngineHealth.down(error.message)
        return EngineHealth.ok()

    async def store(self, item: Item) -> StoreReceipt:
        """Append an item; one that is there already is a replay."""
        item.validate_storable()
        return await asyncio.to_thread(self._append, item)

    async def forget(self, target: ForgetTarget) -> ForgetReport:
        """Write the file anew without what is to go."""
        target.ensure_valid()
        return ForgetReport(forgotten=await asyncio.to_thread(self._remove, target))

    async def list(self, request: ListRequest) -> ListPage:
        """Page through the items in the order they were stored."""
        request.ensure_valid()
        after = position(request.cursor)
        rest = [line for line in await self._selected(request.filter) if line.number > after]
        page = rest[: request.limit]
        return ListPage(
            items=[line.hit() for line in page],
            next_cursor=str(page[-1].number) if len(rest) > len(page) else None,
        )

    async def fetch(self, request: FetchRequest) -> FetchPage:
        """Rank by the share of the query's words that an item has."""
        request.ensure_valid()
        self.descriptor.ensure_mode(request.mode)
        start = position(request.cursor)
        ranked = await self._ranked(request.query, request.filter)
        if request.refers_to is not None:
            ranked = request.refers_to.rank(ranked)
        end = start + request.limit
        return FetchPage(hits=ranked[start:end], next_cursor=str(end) if end < len(ranked) else None)

    async def recall(self, request: RecallRequest) -> RecallAnswer:
        """Quote the best hits."""
        request.ensure_valid()
        best = (await self._ranked(request.question, request.filter))[: request.limit]
        citations = [Citation(id=hit.id, kind=hit.kind, snippet=hit.text, meta=hit.meta) for hit in best]
        return RecallAnswer(answer="\n".join(hit.text for hit in best), citations=citations)

    async def _selected(self, wanted: MetaFilter) -> "list[Line]":
        lines = await asyncio.to_thread(self._read)
        return [line for line in lines if wanted.matches(line.item.kind, line.item.meta)]

    async def _ranked(self, query: str, wanted: MetaFilter) -> "list[Hit]":
        asked = set(query.casefold().split())
        hits = [
            line.hit(len(asked & set(line.item.render_text().casefold().split())) / len(asked))
            for line in await self._selected(wanted)
        ]
        return sorted((hit for hit in hits if hit.score), key=lambda hit: -hit.score)

    def _read(self) -> "list[Line]":
        with self._locked():
            return self._lines()

    def _append(self, item: Item) -> StoreReceipt:
        id_ = item.fingerprint()
        with self._locked():
            lines = self._lines()
            if any(line.id == id_ for line in lines):
                return StoreReceipt(id=id_, replayed=True)
            number = max((line.number for line in lines), default=0) + 1
            self._replace([*lines, Line(number, id_, item)])
        return StoreReceipt(id=id_, replayed=False)

    def _remove(self, target: ForgetTarget) -> int:
        def is_wanted(line: Line) -> bool:
            if target.wanted_filter is not None:
                return target.wanted_filter.matches(line.item.kind, line.item.meta)
            return line.id in (target.wanted_ids or ())

        with self._locked():
            lines = self._lines()
            kept = [line for line in lines if not is_wanted(line)]
            if len(kept) < len(lines):
                self._replace(kept)
        return len(lines) - len(kept)

    @contextmanager
    def _locked(self) -> Generator[None]:
        try:
            with self._path.with_suffix(".lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield
        except OSError as error:
            # Transient: a turn goes on without memory, and a job is tried again.
            raise UnavailableError(f"the notebook cannot be used: {error.strerror}") from error

    def _lines(self) -> "list[Line]":
        if not self._path.exists():
            return []
        lines = map(json.loads, self._path.read_text(encoding="utf-8").splitlines())
        return [Line(line["number"], line["id"], ITEM.validate_python(line["item"])) for line in lines]

    def _replace(self, lines: "list[Line]") -> None:
        # As a whole: whoever is killed in between leaves the old file.
        written = self._path.with_suffix(".new")
        with written.open("w", encoding="utf-8") as file:
            for number, id_, item in lines:
                line = {"number": number, "id": id_, "item": item.model_dump(mode="json")}
                file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())
        written.replace(self._path)


def position(cursor: str | None) -> int:
    """Where a page goes on."""
    if cursor is not None and not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 12):
        raise InvalidRequestError("`cursor` is none of this engine's")
    return int(cursor or 0)


def make(root: Namespace, profile: str) -> NotebookEngine:
    """The engine of one tenant, for `TINYMEMORY_ENGINE_FACTORY`: a file of its own."""
    folder = Path(os.environ.get("NOTEBOOKS", "notebooks"))
    folder.mkdir(parents=True, exist_ok=True)
    return NotebookEngine(folder / f"{str(root).replace('/', '.').replace(':', '-')}.jsonl")


def test_it_keeps_the_promises(
    conformance: Callable[[Callable[[], MemoryEngine]], None], tmp_path: Path
) -> None:
    """The three lines that check an engine."""
    conformance(lambda: NotebookEngine(tmp_path / "notebook.jsonl"))
