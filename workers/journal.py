"""The journal of an ingest: which files were handed over, as what, and what of them was replaced since.

It lies beside the data and is added to, one JSON a line; a line cut short by a crash counts for
nothing.  When most of its lines say nothing any more it is written anew.  Any number of processes
may ingest the same files at once: whoever writes holds the lock beside it.
"""

import asyncio
import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import AsyncGenerator, Collection, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO

from tinymemory.errors import TinyMemoryError
from workers.ledger import JobKey

SPARE_LINES = 2000
"""Lines that say nothing any more, and are not worth writing a journal anew."""
_PAUSE = 0.05
_EDITION = "edition"


class JournalError(TinyMemoryError):
    """The journal's disk fails: it is full, read-only or not ours."""


@dataclass(frozen=True, slots=True)
class FileMark:
    """A file as it was read; another size, time or treatment makes it another version."""

    path: str
    size: int
    changed: int
    """When, in nanoseconds since 1970."""
    scrubbed: bool = False

    @classmethod
    def of(cls, path: Path, *, scrubbed: bool) -> "FileMark":
        """The mark of a file as it is now; raises `OSError` when it cannot be looked at."""
        found = path.stat()
        return cls(str(path.resolve()), found.st_size, found.st_mtime_ns, scrubbed)


@dataclass(frozen=True, slots=True)
class Version:
    """What a file was handed over as."""

    id: str
    """Of the item that is stored for it."""
    job: JobKey
    """The ingest that stores it."""


@dataclass(frozen=True, slots=True)
class Outdated:
    """A file with versions that its current one replaces."""

    path: str
    current: Version
    old: tuple[Version, ...]


@dataclass(slots=True)
class _File:
    versions: dict[str, Version] = field(default_factory=dict[str, Version])
    """By id, the current one last."""
    mark: FileMark | None = None
    """Of the current one; None until it is accepted."""


class Journal:
    """What was ingested with one aim: the same root, profile and source.

    Raises:
        JournalError: It cannot be read; of `begin` and all below it, nor written.
    """

    def __init__(self, folder: Path, aim: str) -> None:
        self._path = folder / "ingest" / f"{hashlib.sha256(aim.encode()).hexdigest()[:16]}.jsonl"
        self._files: dict[str, _File] = {}
        self._read_to = 0
        self._lines = 0
        self._edition: str | None = None
        self._reading = Lock()
        with self._telling():
            self._catch_up()

    def accepted_as(self, mark: FileMark) -> Version | None:
        """What this very version of a file was accepted as, if no other was since."""
        file = self._files.get(mark.path)
        return next(reversed(file.versions.values()), None) if file and file.mark == mark else None

    def replaces(self, path: str, version: str) -> bool:
        """Whether a version of a file, by its id, would replace another."""
        file = self._files.get(path)
        return file is not None and any(known != version for known in file.versions)

    def outdated(self, paths: Iterable[str] | None = None) -> list[Outdated]:
        """The files whose current version was accepted and has older ones that may still be stored."""
        found: list[Outdated] = []
        for path in list(self._files) if paths is None else paths:
            file = self._files.get(path)
            if file is not None and file.mark is not None and len(file.versions) > 1:
                *old, current = file.versions.values()
                found.append(Outdated(path, current, tuple(old)))
        return found

    def begin(self, files: Iterable[tuple[FileMark, Version]]) -> None:
        """Note what will be handed over: a crash right after it must not leave a version unknown."""
        with self._telling(), self._locked():
            self._catch_up()
            needed = sum(len(file.versions) for file in self._files.values())
            if self._lines > 2 * needed + SPARE_LINES:
                self._write_anew()
                self._catch_up()
            self._append({"path": mark.path, **_plain(version)} for mark, version in files)

    def accept(self, files: Iterable[tuple[FileMark, Version]]) -> None:
        """Note what was accepted, on the disk when this returns."""
        with self._telling(), self._locked():
            self._append(_accepted(mark, version) for mark, version in files)

    @asynccontextmanager
    async def alone(self) -> AsyncGenerator[None]:
        """While nobody else writes anything, with what all processes have written so far."""
        with self._telling():
            lock = self._open_lock()
        try:
            # Not by a thread that waits for it: one that is given up on would get the lock, and keep it.
            while not _is_taken(lock):  # noqa: ASYNC110  # nobody tells us
                await asyncio.sleep(_PAUSE)
            await asyncio.to_thread(self._catch_up_telling)
            yield
        finally:
            lock.close()

    def going(self, files: Collection[tuple[str, Version]]) -> None:
        """Note, within `alone`, what will be forgotten: a full disk must be found out before it is."""
        with self._telling():
            self._append({"path": path, "going": version.id} for path, version in files)

    def gone(self, files: Collection[tuple[str, Version]]) -> None:
        """Note, within `alone`, which versions of which paths are stored no longer."""
        with self._telling():
            self._append({"path": path, "gone": version.id} for path, version in files)

    @contextmanager
    def _telling(self) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise JournalError(
                f"the journal {self._path} cannot be written or read: {error.strerror or error}. "
                "What was handed over stays with the workers, and no document was lost: give the disk "
                "room or the right permissions, and the same command goes on where it was"
            ) from error

    def _open_lock(self) -> BinaryIO:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Beside the journal: the journal itself may be another file before the lock is ours.
        return self._path.with_suffix(".lock").open("ab")

    @contextmanager
    def _locked(self) -> Generator[None]:
        with self._open_lock() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # until it is closed
            yield

    def _append(self, lines: Iterable[dict[str, Any]]) -> None:
        # The first line feed ends what a crash may have cut short.
        text = "".join(f"\n{json.dumps(line)}" for line in lines) + "\n"
        with self._path.open("ab") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        self._catch_up()

    def _write_anew(self) -> None:
        """Leave out what says nothing any more; a crash, or a full disk, leaves the journal as it was."""
        lines: list[dict[str, Any]] = [{_EDITION: secrets.token_hex(8)}]
        for path, file in self._files.items():
            *old, current = file.versions.values() or (None,)
            lines += [{"path": path, **_plain(version)} for version in old if version]
            if current and file.mark:
                lines.append(_accepted(file.mark, current))
            elif current:
                lines.append({"path": path, **_plain(current)})
        fresh = self._path.with_suffix(".new")
        try:
            with fresh.open("wb") as new:
                new.write("".join(f"{json.dumps(line)}\n" for line in lines).encode())
                new.flush()
                os.fsync(new.fileno())
            fresh.replace(self._path)
            _sync_folder(self._path.parent)
        except OSError:
            # A few lines more may fit where a second journal does not.
            fresh.unlink(missing_ok=True)

    def _catch_up_telling(self) -> None:
        with self._telling():
            self._catch_up()

    def _catch_up(self) -> None:
        with self._reading:
            try:
                file = self._path.open("rb")
            except FileNotFoundError:
                return
            with file:
                # Whoever wrote it anew named it anew: what was read of the old one is in it.
                edition = _edition_of(file.readline())
                files = self._files
                if edition != self._edition:
                    # Others go by the old one until the new one is read.
                    files, self._edition, self._read_to, self._lines = {}, edition, 0, 0
                file.seek(self._read_to)
                data = file.read()
            whole = data[: data.rfind(b"\n") + 1]
            self._read_to += len(whole)
            for line in whole.splitlines():
                self._lines += bool(line)
                try:
                    _apply(files, json.loads(line))
                except (ValueError, KeyError, TypeError):
                    continue
            self._files = files


def _apply(files: dict[str, _File], line: dict[str, Any]) -> None:
    if "going" in line:
        return
    file = files.setdefault(line["path"], _File())
    if "gone" in line:
        file.versions.pop(line["gone"], None)
        return
    version = Version(line["id"], JobKey(line["job"]))
    file.versions.pop(version.id, None)
    file.versions[version.id] = version
    is_accepted = "size" in line
    file.mark = (
        FileMark(line["path"], line["size"], line["changed"], line["scrubbed"]) if is_accepted else None
    )


def _plain(version: Version) -> dict[str, Any]:
    return {"id": version.id, "job": version.job}


def _accepted(mark: FileMark, version: Version) -> dict[str, Any]:
    told = {"size": mark.size, "changed": mark.changed, "scrubbed": mark.scrubbed}
    return {"path": mark.path, **_plain(version), **told}


def _edition_of(line: bytes) -> str | None:
    try:
        return json.loads(line)[_EDITION]
    except (ValueError, KeyError, TypeError):
        return None


def _is_taken(lock: BinaryIO) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # until it is closed
    except BlockingIOError:
        return False
    return True


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
