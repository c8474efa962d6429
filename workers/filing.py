"""Files into the brain, thousands of them: found, converted side by side, enqueued in batches, resumed.

What was accepted is written down in a journal beside the data, so that an ingest that was cut short
goes on where it was, and one that is repeated sends only what is new.
"""

import asyncio
import glob
import hashlib
import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

import watchfiles

from tinymemory.brain_input import BrainDocument
from tinymemory.documents import Converters, DocumentError, RawDocument, brain_document
from tinymemory.documents.scrub import Mark, scrub
from tinymemory.errors import InvalidRequestError
from tinymemory.jobs import IngestBrain
from tinymemory.layout import BrainSource
from tinymemory.meta import MemoryMeta
from tinymemory.namespace import Namespace
from workers.client import MemoryJobs
from workers.ledger import Enqueued, JobKey, JobState
from workers.settings import DEFAULT_PROFILE, MIB

BATCH_DOCUMENTS = 50
BATCH_BYTES = MIB
STDIN = "-"


class FileState(StrEnum):
    """What became of a file."""

    ACCEPTED = "accepted"
    """The ledger owes its ingest."""
    CONVERTED = "converted"
    """A dry run would have sent it."""
    UNCHANGED = "unchanged"
    """An earlier run sent it, and it has not changed since."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Filed:
    """One file, and what became of it."""

    path: str
    state: FileState
    title: str | None = None
    characters: int = 0
    reason: str | None = None
    """Of a failed one, for programs; see `DocumentError.reason`."""
    error: str | None = None


@dataclass(frozen=True, slots=True)
class FilingOptions:
    """Where files go and how."""

    root: Namespace
    source: BrainSource | None = None
    """None is what each file's format implies."""
    profile: str = DEFAULT_PROFILE
    scrub: bool = False
    dry_run: bool = False
    again: bool = False
    """Send what an earlier run has sent, too."""
    at_once: int = field(default_factory=lambda: os.cpu_count() or 2)


class Journal:
    """Which files were accepted, one JSON a line; a line cut short by a crash counts for nothing."""

    def __init__(self, folder: Path, options: FilingOptions) -> None:
        aim = f"{options.root} {options.profile} {options.source} {options.scrub}"
        self._path = folder / "ingest" / f"{hashlib.sha256(aim.encode()).hexdigest()[:16]}.jsonl"
        self._known = set(self._read())

    def knows(self, path: Path) -> bool:
        """Whether this very content of the file was accepted."""
        return _mark(path) in self._known

    def write(self, paths: Iterable[Path]) -> None:
        """Remember files, on the disk when this returns."""
        marks = [_mark(path) for path in paths]
        self._known.update(marks)
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(mark) + "\n" for mark in marks)
            file.flush()
            os.fsync(file.fileno())

    def _read(self) -> Iterator[tuple[str, int, int]]:
        if not self._path.exists():
            return
        for line in self._path.read_text(encoding="utf-8").splitlines():
            try:
                path, size, changed = json.loads(line)
            except ValueError:
                continue
            yield path, size, changed


class Filing:
    """One ingest of files: `send` as often as there are files, then `finish`."""

    def __init__(
        self,
        converters: Converters,
        jobs: MemoryJobs,
        options: FilingOptions,
        *,
        on_filed: Callable[[Filed], None] = lambda _: None,
    ) -> None:
        self.handles: list[Enqueued] = []
        self.scrubbed: Counter[Mark] = Counter()
        self._converters = converters
        self._jobs = jobs
        self._options = options
        self._on_filed = on_filed
        self._journal = Journal(jobs.settings.data_dir, options)
        self._pending: list[tuple[Path | None, BrainDocument]] = []
        self._pending_bytes = 0
        self._sending = asyncio.Lock()

    async def send(self, paths: Iterable[Path]) -> None:
        """Convert files side by side, and enqueue them as batches fill.

        Raises:
            UnavailableError: The ledger is away and there is no spool; what was accepted before is
                in the journal.
        """
        waiting = iter(paths)

        async def work() -> None:
            for path in waiting:
                await self._one(path)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._options.at_once):
                    group.create_task(work())
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from errors
        await self._flush()

    async def send_bytes(self, raw: RawDocument) -> None:
        """Convert and enqueue one document that is no file: what came by stdin."""
        await self._convert(raw, None, MemoryMeta())
        await self._flush()

    async def wait(self, on_done: Callable[[], None] = lambda: None) -> list[tuple[JobKey, JobState]]:
        """Wait until every job sent is over; those that did not end well."""
        bad: list[tuple[JobKey, JobState]] = []
        for handle in self.handles:
            status = await self._jobs.wait(handle)
            if status.state is not JobState.DONE:
                bad.append((handle.key, status.state))
            on_done()
        return bad

    async def _one(self, path: Path) -> None:
        if not self._options.again and not self._options.dry_run and self._journal.knows(path):
            self._on_filed(Filed(str(path), FileState.UNCHANGED))
            return
        try:
            raw, meta = await asyncio.to_thread(_read, path)
        except OSError as error:
            self._failed(str(path), "unreadable", f"{path}: {error.strerror or error}")
            return
        await self._convert(raw, path, meta)

    async def _convert(self, raw: RawDocument, path: Path | None, meta: MemoryMeta) -> None:
        label = str(path) if path else raw.label
        try:
            document = await brain_document(self._converters, raw, self._options.source, meta)
        except DocumentError as error:
            self._failed(label, error.reason, error.message)
            return
        if self._options.scrub:
            document, scrubbed = scrub(document)
            self.scrubbed.update(scrubbed.counts)
        if self._options.dry_run:
            self._on_filed(Filed(label, FileState.CONVERTED, document.title, len(document.text)))
            return
        async with self._sending:
            size = len(document.text.encode())
            if self._pending and (
                len(self._pending) >= BATCH_DOCUMENTS or self._pending_bytes + size > BATCH_BYTES
            ):
                await self._enqueue()
            self._pending.append((path, document))
            self._pending_bytes += size

    async def _flush(self) -> None:
        async with self._sending:
            if self._pending:
                await self._enqueue()

    async def _enqueue(self) -> None:
        batch, self._pending, self._pending_bytes = self._pending, [], 0
        job = IngestBrain(documents=tuple(document for _, document in batch))
        try:
            self.handles += await self._jobs.enqueue(
                [job], root=self._options.root, profile=self._options.profile
            )
        except InvalidRequestError as error:
            if len(batch) > 1:
                # One of them is refused; the others need not suffer for it.
                for one in batch:
                    self._pending = [one]
                    await self._enqueue()
                return
            ((path, document),) = batch
            self._failed(str(path or document.title), "refused", error.message)
            return
        await asyncio.to_thread(self._journal.write, [path for path, _ in batch if path])
        for path, document in batch:
            self._on_filed(
                Filed(str(path or document.title), FileState.ACCEPTED, document.title, len(document.text))
            )

    def _failed(self, path: str, reason: str, error: str) -> None:
        self._on_filed(Filed(path, FileState.FAILED, reason=reason, error=error))


def find_files(arguments: Sequence[str]) -> Iterator[Path]:
    """The files that paths, folders and patterns name, each once, in a stable order.

    In folders what is hidden (`.git`, `.DS_Store`) is passed over, and links are not followed.

    Raises:
        InvalidRequestError: A path does not exist, or a pattern matches nothing.
    """
    seen: set[Path] = set()
    for argument in arguments:
        for path in _named(argument):
            for file in _files_below(path):
                if (real := file.resolve()) not in seen:
                    seen.add(real)
                    yield file


def _named(argument: str) -> list[Path]:
    path = Path(argument).expanduser()
    if path.exists():
        return [path]
    matches = [Path(found) for found in sorted(glob.glob(str(path), recursive=True))]
    if not matches:
        raise InvalidRequestError(f"`{argument}`: no such file or folder, and nothing matches it")
    return matches


def _files_below(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if not name.startswith(".") and (file := Path(folder, name)).is_file():
                yield file


async def changed_files(folders: Sequence[Path]) -> AsyncIterator[list[Path]]:
    """The files that were added or changed below folders, as it happens."""
    library = cast(Any, watchfiles)  # one parameter of `awatch` has no type
    async for changes in library.awatch(*folders):
        touched = [Path(path) for change, path in changes if change is not watchfiles.Change.deleted]
        yield await asyncio.to_thread(_existing, touched)


def _existing(paths: Sequence[Path]) -> list[Path]:
    return sorted(path for path in paths if path.is_file())


def _read(path: Path) -> tuple[RawDocument, MemoryMeta]:
    changed = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    meta = MemoryMeta(file_path=str(path.resolve()), observed_at=changed)
    return RawDocument(path.read_bytes(), path.name), meta


def _mark(path: Path) -> tuple[str, int, int]:
    found = path.stat()
    return str(path.resolve()), found.st_size, found.st_mtime_ns
