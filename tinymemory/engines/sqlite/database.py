"""One SQLite file, used from many tasks, threads, event loops and processes at once.

Everything runs on threads of the database's own, so no event loop waits for a disk.  Reads see one
snapshot; writes take the file's write lock first, so that none fails half way.

A connection must not live through a fork: parent and child would share SQLite's record of who holds
which lock, and could destroy the file.  So before the process forks, running work is waited for and
every connection closed, and each side opens its own again.
Source: https://www.sqlite.org/howtocorrupt.html, section 2.6.
"""

import asyncio
import os
import sqlite3
import time
import weakref
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Condition, Lock
from typing import TypeVar

from tinymemory.engines.sqlite.failure import is_busy, translated
from tinymemory.engines.sqlite.schema import ensure_ours, ensure_schema
from tinymemory.errors import ConfigError

T = TypeVar("T")

THREADS = 4
BUSY_SECONDS = 10.0
"""How long a write waits for another process's."""


class Database:
    """The file at a path; connections and threads come and go with use."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        text = os.fspath(path)
        if not text or text.startswith((":memory:", "file:")):
            raise ConfigError("the sqlite engine keeps one file: its path is that of a file")
        self.path = Path(text).expanduser().absolute()
        self.name = self.path.name
        self._executor: ThreadPoolExecutor | None = None
        self._writing = Lock()
        self._idle: list[sqlite3.Connection] = []
        self._in_use = 0
        self._changed = Condition()
        weakref.finalize(self, _close_all, self._idle)
        _ALIVE.add(self)

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` on one snapshot of the file."""
        return await self._run(lambda: self._do(work, begin="BEGIN"))

    async def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` as one transaction: all of it is on disk when this returns, or nothing."""
        return await self._run(lambda: self._do_alone(work))

    async def aclose(self) -> None:
        """Let running work end, then close; a later call opens the file again."""
        executor, self._executor = self._executor, None
        if executor is not None:
            await asyncio.to_thread(executor.shutdown)
        with self._changed:
            _close_all(self._idle)

    async def _run(self, work: Callable[[], T]) -> T:
        with self._changed:
            executor = self._executor = self._executor or ThreadPoolExecutor(
                THREADS, thread_name_prefix="tinymemory-sqlite"
            )
            future = executor.submit(work)
        return await asyncio.wrap_future(future)

    def _do_alone(self, work: Callable[[sqlite3.Connection], T]) -> T:
        # Threads of one process take turns here: SQLite would let them poll for the lock.
        with self._writing:
            return self._do(work, begin="BEGIN IMMEDIATE")

    def _do(self, work: Callable[[sqlite3.Connection], T], *, begin: str) -> T:
        with translated(self.name), self._connection() as connection:
            connection.execute(begin)
            try:
                result = work(connection)
                connection.execute("COMMIT")
            except BaseException:
                # SQLite has rolled back by itself when the disk was full, say.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            return result

    @contextmanager
    def _connection(self) -> Generator[sqlite3.Connection]:
        with self._changed:
            self._in_use += 1
            connection = self._idle.pop() if self._idle else None
        try:
            connection = connection or self._open()
            yield connection
        finally:
            with self._changed:
                self._in_use -= 1
                if connection is not None:
                    self._idle.append(connection)
                self._changed.notify_all()

    def _open(self) -> sqlite3.Connection:
        self._ensure_place()
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                return self._opened()
            except sqlite3.OperationalError as error:
                # The change to WAL needs the file for itself and does not wait for it: several
                # processes that open a new file at the same moment refuse one another.
                if not is_busy(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def _ensure_place(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"the folder of `{self.name}` cannot be made: {(error.strerror or 'unknown').lower()}"
            ) from error
        if self.path.is_dir():
            raise ConfigError(f"`{self.name}` is a folder: the sqlite engine keeps one file")

    def _opened(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            # Not NORMAL: what is acknowledged survives a power cut too.
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA secure_delete = ON")
            if connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
                ensure_ours(connection, self.name)
                (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
                if mode != "wal":
                    raise ConfigError(f"the file system of `{self.name}` cannot share it (no WAL there)")
            ensure_schema(connection, self.name)
        except BaseException:
            connection.close()
            raise
        return connection

    def before_fork(self) -> None:
        """Wait for running work, and close every connection."""
        self._writing.acquire()
        self._changed.acquire()
        while self._in_use:
            self._changed.wait()
        _close_all(self._idle)

    def after_fork_in_parent(self) -> None:
        """Go on."""
        self._changed.release()
        self._writing.release()

    def after_fork_in_child(self) -> None:
        """Start anew: nothing of the parent's is ours."""
        # The locks belong to threads that are not here, and so do the threads of the executor.
        self._executor = None
        self._writing = Lock()
        self._changed = Condition()


def _close_all(connections: list[sqlite3.Connection]) -> None:
    while connections:
        connections.pop().close()


_ALIVE: weakref.WeakSet[Database] = weakref.WeakSet()
_forking: list[Database] = []


def _before_fork() -> None:
    _forking[:] = _ALIVE
    for database in _forking:
        database.before_fork()


def _after_fork_in_parent() -> None:
    while _forking:
        _forking.pop().after_fork_in_parent()


def _after_fork_in_child() -> None:
    while _forking:
        _forking.pop().after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
