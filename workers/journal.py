"""The journal of an ingest: which files were handed over, as what, and what of them was replaced since.

It lies beside the data and is only ever added to, one JSON a line; a line cut short by a crash counts
for nothing.  Any number of processes may ingest the same files at once.
"""

import asyncio
import fcntl
import hashlib
import json
import os
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO

from workers.ledger import JobKey


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
    """What was ingested with one aim: the same root, profile and source."""

    def __init__(self, folder: Path, aim: str) -> None:
        self._path = folder / "ingest" / f"{hashlib.sha256(aim.encode()).hexdigest()[:16]}.jsonl"
        self._files: dict[str, _File] = {}
        self._read_to = 0
        self._reading = Lock()
        if self._path.exists():
            with self._path.open("rb") as file:
                self._catch_up(file)

    def knows(self, mark: FileMark) -> bool:
        """Whether this very version of a file was accepted, and no other since."""
        file = self._files.get(mark.path)
        return file is not None and file.mark == mark

    def replaces(self, path: str, version: str) -> bool:
        """Whether a version of a file, by its id, would replace another."""
        file = self._files.get(path)
        return file is not None and any(known != version for known in file.versions)

    def outdated(self) -> list[Outdated]:
        """The files whose current version was accepted and has older ones that may still be stored."""
        found: list[Outdated] = []
        for path, file in self._files.items():
            if file.mark is not None and len(file.versions) > 1:
                *old, current = file.versions.values()
                found.append(Outdated(path, current, tuple(old)))
        return found

    def begin(self, files: Iterable[tuple[FileMark, Version]]) -> None:
        """Note what will be handed over: a crash right after it must not leave a version unknown."""
        file = self._locked()
        try:
            self._append({"path": mark.path, **_plain(version)} for mark, version in files)
        finally:
            file.close()

    def accept(self, files: Iterable[tuple[FileMark, Version]]) -> None:
        """Note what was accepted, on the disk when this returns."""
        self._append(
            {
                "path": mark.path,
                **_plain(version),
                "size": mark.size,
                "changed": mark.changed,
                "scrubbed": mark.scrubbed,
            }
            for mark, version in files
        )

    def gone(self, files: Iterable[tuple[str, Version]]) -> None:
        """Note which versions of which paths are stored no longer."""
        self._append({"path": path, "gone": version.id} for path, version in files)

    @asynccontextmanager
    async def alone(self) -> AsyncGenerator[None]:
        """While nobody begins anything, with what all processes have written so far."""
        file = await asyncio.to_thread(self._locked)
        try:
            yield
        finally:
            file.close()

    def _locked(self) -> BinaryIO:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = self._path.open("a+b")
        fcntl.flock(file, fcntl.LOCK_EX)  # until it is closed
        self._catch_up(file)
        return file

    def _append(self, lines: Iterable[dict[str, Any]]) -> None:
        # The first line feed ends what a crash may have cut short.
        text = "".join(f"\n{json.dumps(line)}" for line in lines) + "\n"
        with self._path.open("a+b") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
            self._catch_up(file)

    def _catch_up(self, file: BinaryIO) -> None:
        with self._reading:
            file.seek(self._read_to)
            data = file.read()
            whole = data[: data.rfind(b"\n") + 1]
            self._read_to += len(whole)
            for line in whole.splitlines():
                try:
                    self._apply(json.loads(line))
                except (ValueError, KeyError, TypeError):
                    continue

    def _apply(self, line: dict[str, Any]) -> None:
        file = self._files.setdefault(line["path"], _File())
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
