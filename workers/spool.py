"""Jobs kept in files while Redis is away: append-only, one JSON a line, replayed in order.

A folder is shared by any number of processes.  Lines go to the newest segment, `<number>.jsonl`;
whoever replays first seals it by a new name, so that writers start another one, and deletes it once
Redis has every line.  What a crash interrupts is replayed again, which the job keys make harmless.
"""

import contextlib
import json
import logging
import os
import re
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tinymemory.errors import ConfigError, UnavailableError
from tinymemory.namespace import Namespace
from workers.ledger import Coverage, NewJob
from workers.ledger.transitions import root_of
from workers.settings import KIB, WorkerSettings

SEGMENT_BYTES = 256 * KIB
"""What one segment grows to: at most this much is replayed twice after a crash."""
REPLAY_LINES = 100
"""How many jobs go to Redis at once."""
LINE_VERSION = 1

try:
    import fcntl
except ImportError:  # not on Windows, where everything but the spool works
    fcntl = None

_SEGMENT = re.compile(r"(\d{12})\.(jsonl|sealed)")
_REJECTED = "rejected.jsonl"

log = logging.getLogger(__name__)

Send = Callable[[Sequence[NewJob]], object]


@dataclass(frozen=True, slots=True)
class SpoolStats:
    """What waits in a folder."""

    files: int = 0
    lines: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Replayed:
    """What one replay did."""

    sent: int = 0
    """Jobs that are in the ledger now."""
    torn: int = 0
    """Lines cut short by a crash: nobody was told that they were kept."""
    rejected: int = 0
    """Whole lines this release cannot read, set aside in `rejected.jsonl`."""
    finished: bool = True
    """False when `go_on` said no."""


class Spool:
    """One folder of spooled jobs.  Opens nothing until it is used, and holds nothing open after.

    Raises:
        ConfigError: The system has no file locks, or what the path names is no folder.
    """

    def __init__(self, folder: Path, *, limit: int) -> None:
        if fcntl is None:
            raise ConfigError("`spool_dir` needs a POSIX system: unset it")
        if os.path.exists(folder) and not os.path.isdir(folder):
            raise ConfigError(f"`spool_dir` is {folder}, which is no folder: name another")
        self.folder = folder
        self.limit = limit

    @classmethod
    def from_settings(cls, settings: WorkerSettings) -> "Spool | None":
        """The folder `spool_dir`; None when it is unset."""
        return None if settings.spool_dir is None else cls(settings.spool_dir, limit=settings.spool_limit)

    def append(self, jobs: Sequence[NewJob]) -> None:
        """Keep jobs, on the disk when this returns; all of them or none.

        Raises:
            UnavailableError: The folder is full, or cannot be written.
        """
        data = b"".join(map(_line, jobs))
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with self._locked("write"):
                self._ensure_room(len(data))
                self._write(data)
        except OSError as error:
            raise UnavailableError(f"the spool cannot be written: {error.strerror or error}") from error

    def replay(self, send: Send, *, go_on: Callable[[], bool] = lambda: True) -> Replayed | None:
        """Hand every line to `send`, the oldest first, `REPLAY_LINES` at a time.

        A segment is deleted once all of it is sent; `go_on` is asked before each.  What `send`
        raises ends the replay and goes through, and nothing unsent is lost.

        Returns:
            None when another process is replaying just now.

        Raises:
            OSError: The folder cannot be read or written.
        """
        if self.is_empty():
            return Replayed()
        with self._locked("replay", wait=False) as ours:
            return self._replay(send, go_on) if ours else None

    def _replay(self, send: Send, go_on: Callable[[], bool]) -> Replayed:
        sent = torn = rejected = 0
        finished = True
        for path in self._sealed():
            if not (finished := go_on()):
                break
            jobs, broken, strange = _read(path)
            for start in range(0, len(jobs), REPLAY_LINES):
                send(jobs[start : start + REPLAY_LINES])
            self._set_aside(strange)
            with self._locked("write"):
                path.unlink()
            sent, torn, rejected = sent + len(jobs), torn + broken, rejected + len(strange)
        if torn or rejected:
            log.warning("spool_lines_not_replayed", extra={"torn": torn, "rejected": rejected})
        return Replayed(sent, torn, rejected, finished)

    def erase(self, root: Namespace) -> int:
        """Remove the jobs of a root, for good; returns how many.

        A root below it is another tenant's, here as in the ledger.  Waits for a replay that is going on.
        """
        erased = 0
        if not self.folder.is_dir():
            return erased
        with self._locked("replay"), self._locked("write"):
            for path in (*self._segments(), *self.folder.glob(_REJECTED)):
                lines = path.read_bytes().splitlines(keepends=True)
                kept = [line for line in lines if not _is_of(line, root)]
                if len(kept) < len(lines):
                    erased += len(lines) - len(kept)
                    _replace(path, b"".join(kept))
        return erased

    def stats(self) -> SpoolStats:
        """Files, lines and bytes waiting to be replayed."""
        contents: list[bytes] = []
        for path in self._segments():
            with contextlib.suppress(FileNotFoundError):
                contents.append(path.read_bytes())
        return SpoolStats(len(contents), sum(c.count(b"\n") for c in contents), sum(map(len, contents)))

    def is_empty(self) -> bool:
        """Whether there is nothing to replay; costs one look at the folder."""
        return not self._segments()

    def changed_at(self) -> int:
        """When a file was last added or removed, in some clock's nanoseconds; 0 without a folder."""
        try:
            return self.folder.stat().st_mtime_ns
        except OSError:
            return 0

    def _write(self, data: bytes) -> None:
        path = self._open_segment()
        is_new = not path.exists()
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            # A writer that died in the middle of a line must not spoil the next one.
            torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
            _write_all(descriptor, b"\n" + data if torn else data)
        finally:
            os.close(descriptor)
        if is_new:
            _sync_folder(self.folder)

    def _ensure_room(self, wanted: int) -> None:
        held = sum(path.stat().st_size for path in self._segments())
        if held + wanted > self.limit:
            raise UnavailableError(
                f"the spool is full: {held} bytes of {self.limit} are waiting for Redis (`spool_limit`)"
            )

    def _open_segment(self) -> Path:
        segments = self._segments()
        newest = segments[-1] if segments else None
        if newest is not None and newest.suffix == ".jsonl" and newest.stat().st_size < SEGMENT_BYTES:
            return newest
        number = int(newest.stem) + 1 if newest is not None else 1
        return self.folder / f"{number:012}.jsonl"

    def _sealed(self) -> list[Path]:
        with self._locked("write"):
            return [path.rename(path.with_suffix(".sealed")) for path in self._segments()]

    def _segments(self) -> list[Path]:
        try:
            names = sorted(filter(_SEGMENT.fullmatch, os.listdir(self.folder)))
        except FileNotFoundError:
            return []
        return [self.folder / name for name in names]

    def _set_aside(self, lines: Sequence[bytes]) -> None:
        if lines:
            with (self.folder / _REJECTED).open("ab") as file:
                file.writelines(lines)
                file.flush()
                os.fsync(file.fileno())

    @contextlib.contextmanager
    def _locked(self, what: str, *, wait: bool = True) -> Generator[bool]:
        """Whether the lock is ours; the kernel lets go of it when its holder dies, however it dies."""
        assert fcntl is not None
        with (self.folder / f"{what}.lock").open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
            else:
                yield True


def _line(job: NewJob) -> bytes:
    fields = {name: value for name, value in asdict(job).items() if value not in (None, "")}
    return json.dumps({"v": LINE_VERSION, **fields}, separators=(",", ":")).encode() + b"\n"


def _read(path: Path) -> tuple[list[NewJob], int, list[bytes]]:
    """The jobs of a segment, how many lines are torn, and the whole lines that are no jobs of ours."""
    jobs, torn, strange = list[NewJob](), 0, list[bytes]()
    for line in path.read_bytes().splitlines(keepends=True):
        try:
            fields = json.loads(line)
        except ValueError:
            torn += 1
            continue
        try:
            jobs.append(_job(fields))
        except (KeyError, TypeError, ValueError):
            strange.append(line if line.endswith(b"\n") else line + b"\n")
    return jobs, torn, strange


def _job(fields: dict[str, Any]) -> NewJob:
    if fields.pop("v") != LINE_VERSION:
        raise ValueError("a newer line")
    coverage = fields.pop("coverage", None)
    if coverage is not None:
        kinds = tuple(coverage.pop("kinds"))
        coverage = Coverage(**coverage, kinds=kinds)
    return NewJob(**fields, coverage=coverage)


def _is_of(line: bytes, root: Namespace) -> bool:
    try:
        return Namespace.parse(root_of(json.loads(line)["key"])) == root
    except (ValueError, KeyError, TypeError):
        # A torn line may hold anybody's text, and is worth nothing.
        return True


def _write_all(descriptor: int, data: bytes) -> None:
    """Write to the end of a file; what cannot be written whole leaves it as it was."""
    before = os.fstat(descriptor).st_size
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, before)
        raise


def _replace(path: Path, data: bytes) -> None:
    """Give a file another content, or remove it when that is nothing; never half of both."""
    if not data:
        path.unlink()
    else:
        draft = path.with_suffix(".draft")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            _write_all(descriptor, data)
        finally:
            os.close(descriptor)
        draft.rename(path)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    # A new name is on the disk only when its folder is.
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
