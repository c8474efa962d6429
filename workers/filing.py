"""Files into the brain, thousands of them: found, converted side by side, enqueued in batches, resumed.

What was accepted is written down in a journal beside the data, so that an ingest that was cut short
goes on where it was, one that is repeated sends only what is new, and what a changed file had stored
before is known, and forgotten once its new document is stored.
"""

import asyncio
import contextlib
import glob
import os
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar, cast

import watchfiles

from tinymemory.brain_input import BrainDocument
from tinymemory.documents import Converters, DocumentError, RawDocument, brain_document
from tinymemory.documents.scrub import Mark, scrub
from tinymemory.engine import MemoryEngine
from tinymemory.errors import InvalidRequestError, UnavailableError
from tinymemory.jobs import IngestBrain
from tinymemory.layout import BrainSource, MemoryLayout
from tinymemory.meta import MemoryMeta
from tinymemory.namespace import Namespace
from workers.client import MemoryJobs
from workers.factory import engine_maker
from workers.identity import ingest_key, parts_of, weigh
from workers.journal import FileMark, Journal, Version
from workers.ledger import OWED, Enqueued, JobKey, JobState, JobStatus, Party
from workers.replacing import Replacing
from workers.settings import DEFAULT_PROFILE, MIB
from workers.waiting import Handle, Waiting, key_of

T = TypeVar("T")
BATCH_DOCUMENTS = 50
BATCH_BYTES = MIB
STDIN = "-"
PATIENCE = 30.0
"""Seconds a ledger that has answered before may be away, or too busy to answer."""
FIRST_PATIENCE = 2.0
"""The same for one that never has: it is not there, most likely."""
_PAUSE = 0.2
_LISTENING_MS = 500


class FileState(StrEnum):
    """What became of a file."""

    ACCEPTED = "accepted"
    """The ledger owes its ingest."""
    CONVERTED = "converted"
    """A dry run would have sent it."""
    UNCHANGED = "unchanged"
    """An earlier run sent it, it has not changed since, and its ingest was not given up."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Filed:
    """One file, and what became of it."""

    path: str
    state: FileState
    title: str | None = None
    characters: int = 0
    replaces: bool = False
    """Whether an earlier version of the file was sent, which goes once this one is stored."""
    reason: str | None = None
    """Of a failed one, for programs; see `DocumentError.reason`, and `dead` or `cancelled` for one that
    an earlier run sent and whose ingest ended so."""
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


@dataclass(frozen=True, slots=True)
class _Pending:
    """A document on its way into a batch."""

    label: str
    document: BrainDocument
    id: str
    mark: FileMark | None
    """None for what is no file."""
    replaces: bool

    def filed(self, state: FileState) -> Filed:
        document = self.document
        return Filed(self.label, state, document.title, len(document.text), self.replaces)


class Filing:
    """One ingest of files: `send` as often as there are files, then `wait` and `replace` as you like."""

    def __init__(
        self,
        converters: Converters,
        jobs: MemoryJobs,
        options: FilingOptions,
        *,
        on_filed: Callable[[Filed], None] = lambda _: None,
    ) -> None:
        self.handles: list[Enqueued] = []
        self.unasked: str | None = None
        """Why it is not known what became of the ingests of unchanged files, if it is not."""
        self.scrubbed: Counter[Mark] = Counter()
        self._converters = converters
        self._jobs = jobs
        self._options = options
        self._on_filed = on_filed
        self._layout = MemoryLayout(options.root)
        self._journal = Journal(jobs.settings.data_dir, f"{options.root} {options.profile} {options.source}")
        self.replacing = Replacing(self._journal, states_of=self._states_of, open_engine=self._open_engine)
        """What became of the old versions of changed files."""
        self._pending: list[_Pending] = []
        self._pending_bytes = 0
        self._sending = asyncio.Lock()
        self._sent_before: list[tuple[Path, JobKey]] = []
        self._owed_before: set[JobKey] = set()

    async def replace(self, seconds: float = 0.0) -> None:
        """Forget what changed files had stored before, here and in earlier runs; see `replacing`.

        Waits so many seconds for ingests that are on their way.
        """
        await self.replacing.run(seconds)

    async def send(self, paths: Iterable[Path]) -> None:
        """Convert files side by side, and enqueue them as batches fill.

        Raises:
            UnavailableError: The ledger is away and there is no spool; what was accepted before is
                in the journal.
            JournalError: The journal's disk fails; what was accepted before is accepted.
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
        await self._tell_sent_before()

    def unsent(self, paths: Iterable[Path]) -> list[Path]:
        """Those of the files that were never sent as they are now; what is gone is left out."""
        return [path for path in paths if path.is_file() and not self._journal.accepted_as(self._mark(path))]

    async def send_bytes(self, raw: RawDocument) -> None:
        """Convert and enqueue one document that is no file: what came by stdin."""
        await self._convert(raw, None, raw.label, MemoryMeta())
        await self._flush()

    async def wait(
        self,
        on_done: Callable[[], None] = lambda: None,
        on_parked: Callable[[int], None] = lambda _: None,
    ) -> list[tuple[JobKey, JobState]]:
        """Wait until every job is over that was sent or that owes an unchanged file.

        Tells how many are parked, of those that are, at every look.  Returns those that did not end well.
        """
        over: dict[JobKey, JobState] = {}
        waits = [Waiting(handle, None) for handle in self.awaited]
        while waits:
            statuses: list[JobStatus] = []
            with contextlib.suppress(UnavailableError):  # an outage is waited out
                statuses = await self._jobs.statuses(waiting.handle for waiting in waits)
            for waiting, status in list(zip(waits, statuses, strict=False)):
                if (answer := waiting.ended_by(status)) is not None:
                    over[key_of(waiting.handle)] = answer.state
                    waits.remove(waiting)
                    on_done()
            if parked := sum(status.state is JobState.PARKED for status in statuses):
                on_parked(parked)
            if waits:
                await asyncio.sleep(_PAUSE)
        return [(key, state) for key, state in over.items() if state is not JobState.DONE]

    @property
    def awaited(self) -> list[Handle]:
        """What `wait` waits for."""
        sent = {handle.key for handle in self.handles}
        return [*self.handles, *sorted(self._owed_before - sent)]

    async def _one(self, path: Path) -> None:
        try:
            # Before it is read: what changes meanwhile is another version to the next run.
            mark = await asyncio.to_thread(self._mark, path)
            sent = self._journal.accepted_as(mark)
            if sent is not None and not self._options.again and not self._options.dry_run:
                self._sent_before.append((path, sent.job))
                return
            raw = await asyncio.to_thread(lambda: RawDocument(path.read_bytes(), path.name))
        except OSError as error:
            self._failed(str(path), "unreadable", f"{path}: {error.strerror or error}")
            return
        changed = datetime.fromtimestamp(mark.changed / 1e9, UTC)
        await self._convert(raw, mark, str(path), MemoryMeta(file_path=mark.path, observed_at=changed))

    def _mark(self, path: Path) -> FileMark:
        return FileMark.of(path, scrubbed=self._options.scrub)

    async def _convert(self, raw: RawDocument, mark: FileMark | None, label: str, meta: MemoryMeta) -> None:
        try:
            document = await brain_document(self._converters, raw, self._options.source, meta)
        except DocumentError as error:
            self._failed(label, error.reason, error.message)
            return
        if self._options.scrub:
            document, scrubbed = await asyncio.to_thread(scrub, document)
            self.scrubbed.update(scrubbed.counts)
        try:
            id_ = await asyncio.to_thread(lambda: document.item(self._layout).fingerprint())
        except InvalidRequestError as error:
            self._failed(label, "refused", error.message)
            return
        replaces = mark is not None and self._journal.replaces(mark.path, id_)
        one = _Pending(label, document, id_, mark, replaces)
        if self._options.dry_run:
            self._on_filed(one.filed(FileState.CONVERTED))
            return
        async with self._sending:
            size = len(document.text.encode())
            if self._pending and (
                len(self._pending) >= BATCH_DOCUMENTS or self._pending_bytes + size > BATCH_BYTES
            ):
                await self._enqueue()
            self._pending.append(one)
            self._pending_bytes += size

    async def _tell_sent_before(self) -> None:
        """Files that have not changed: their ingests may have been given up since, or be still owed."""
        files, self._sent_before = self._sent_before, []
        states: Mapping[JobKey, JobState] = {}
        try:
            states = await self._patiently(lambda: self._states_of({job for _, job in files}))
        except UnavailableError as error:
            self.unasked = str(error)
        for path, job in files:
            match states.get(job):
                case JobState.DEAD:
                    retry = f"tinymemory jobs retry {job}"
                    self._failed(
                        str(path), "dead", f"its ingest was given up: {retry}, or send it with --again"
                    )
                case JobState.CANCELLED:
                    self._failed(str(path), "cancelled", f"{job} was cancelled: send it with --again")
                case state:
                    if state in OWED:
                        self._owed_before.add(job)
                    self._on_filed(Filed(str(path), FileState.UNCHANGED))

    async def _flush(self) -> None:
        async with self._sending:
            if self._pending:
                await self._enqueue()

    async def _enqueue(self) -> None:
        batch, self._pending, self._pending_bytes = self._pending, [], 0
        job = IngestBrain(documents=tuple(one.document for one in batch))
        try:
            files = await asyncio.to_thread(self._versions, batch)
            await asyncio.to_thread(self._journal.begin, files)
            self.handles += await self._hand_over(job)
        except InvalidRequestError as error:
            if len(batch) > 1:
                # One of them is refused; the others need not suffer for it.
                for one in batch:
                    self._pending = [one]
                    await self._enqueue()
                return
            self._failed(batch[0].label, "refused", error.message)
            return
        await asyncio.to_thread(self._journal.accept, files)
        for one in batch:
            self._on_filed(one.filed(FileState.ACCEPTED))

    def _versions(self, batch: Sequence[_Pending]) -> list[tuple[FileMark, Version]]:
        """What the files of a batch are handed over as; a large batch is several jobs."""
        weighed = weigh([one.document for one in batch], self._layout)
        keys = [
            ingest_key(self._options.root, self._options.profile, part)
            for part in parts_of(weighed)
            for _ in part
        ]
        return [(one.mark, Version(one.id, key)) for one, key in zip(batch, keys, strict=True) if one.mark]

    async def _hand_over(self, job: IngestBrain) -> list[Enqueued]:
        root, profile = self._options.root, self._options.profile
        return await self._patiently(lambda: self._jobs.enqueue([job], root=root, profile=profile))

    async def _patiently(self, call: Callable[[], Awaitable[T]]) -> T:
        """Ask the ledger patiently: a host's 200 ms are too few here, where nobody waits for one call."""
        deadline = time.monotonic() + (PATIENCE if self.handles else FIRST_PATIENCE)
        while True:
            try:
                return await call()
            except UnavailableError:
                if time.monotonic() > deadline:
                    raise
            await asyncio.sleep(_PAUSE)

    async def _states_of(self, jobs: Iterable[JobKey]) -> Mapping[JobKey, JobState]:
        keys = list(jobs)
        statuses = await self._jobs.statuses(keys) if keys else []
        return {key: status.state for key, status in zip(keys, statuses, strict=True)}

    def _open_engine(self) -> MemoryEngine:
        return engine_maker(self._jobs.settings)(Party(str(self._options.root), self._options.profile))

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


async def changed_files(folders: Sequence[Path]) -> AsyncGenerator[list[Path]]:
    """All files below folders, and then those that are added or changed there, as it happens.

    The first list is made when changes are listened for already, so that none falls between.  What
    `find_files` passes over is passed over here too.
    """
    library = cast(Any, watchfiles)  # one parameter of `awatch` has no type
    is_first = True
    async for changes in library.awatch(*folders, yield_on_timeout=True, rust_timeout=_LISTENING_MS):
        if is_first:
            is_first = False
            yield await asyncio.to_thread(lambda: list(find_files([str(folder) for folder in folders])))
        touched = {Path(path) for change, path in changes if change is not watchfiles.Change.deleted}
        if files := await asyncio.to_thread(_shown_below, touched, folders):
            yield files


def _shown_below(paths: Iterable[Path], folders: Sequence[Path]) -> list[Path]:
    roots = [folder.resolve() for folder in folders]

    def is_hidden(path: Path) -> bool:
        real = path.parent.resolve() / path.name
        inside = (real.relative_to(root).parts for root in roots if real.is_relative_to(root))
        return any(part.startswith(".") for parts in inside for part in parts)

    # A folder that was moved here is one change, whatever it holds.
    files = (file for path in paths if path.exists() and not is_hidden(path) for file in _files_below(path))
    return sorted(set(files))
