"""What SQLite's failures mean to a caller."""

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager

from tinymemory.errors import ConfigError, EngineError, TinyMemoryError, UnavailableError

_BUSY_RETRY = 1.0
_FULL_RETRY = 30.0


@contextmanager
def translated(name: str) -> Generator[None]:
    """Raise SQLite's errors as the library's own; `name` is the file's, and goes into the message."""
    try:
        yield
    except sqlite3.Error as error:
        raise _meaning(error, name) from error


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another connection holds the lock that was needed."""
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _meaning(error: sqlite3.Error, name: str) -> TinyMemoryError:
    # The messages are ours: SQLite's own may quote what was asked.
    match _code(error):
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return UnavailableError(f"the store `{name}` is busy with other writes", retry_after=_BUSY_RETRY)
        case sqlite3.SQLITE_FULL:
            return UnavailableError(
                f"the disk that holds the store `{name}` is full", retry_after=_FULL_RETRY
            )
        case sqlite3.SQLITE_NOTADB:
            return ConfigError(f"`{name}` is no SQLite database")
        case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM | sqlite3.SQLITE_AUTH:
            return ConfigError(f"the store `{name}` cannot be opened: is its folder writable?")
        case sqlite3.SQLITE_READONLY:
            return ConfigError(f"the store `{name}` cannot be written: file and folder must be writable")
        case sqlite3.SQLITE_CORRUPT:
            return EngineError(f"the store `{name}` is damaged: restore it from a backup")
        case sqlite3.SQLITE_IOERR:
            return EngineError(f"the disk that holds the store `{name}` failed to read or write")
        case _:
            if "no such module: fts5" in str(error):
                return ConfigError("this Python's SQLite has no FTS5, which the sqlite engine needs")
            return EngineError(
                f"the store `{name}` failed: {getattr(error, 'sqlite_errorname', type(error).__name__)}"
            )


def _code(error: sqlite3.Error) -> int | None:
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF  # the rest tells variants apart
