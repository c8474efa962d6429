"""Processes that convert: limited in memory and time, and replaced when a file takes one down."""

import asyncio
import multiprocessing
import resource
from collections.abc import Callable
from concurrent.futures import TimeoutError as FutureTimeoutError
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from pebble import ProcessExpired, ProcessPool

from tinymemory.documents.raw import ConversionLimits, DocumentError
from tinymemory.errors import ConfigError

T = TypeVar("T")
_FILES_PER_PROCESS = 200
"""A process is replaced after so many: converters leak, and a leak must not outgrow the limit."""


class Sandbox:
    """A few processes that run one function at a time each.

    pebble's pool is used because the standard library's cannot end a task that runs too long
    without losing the others.
    """

    def __init__(self, limits: ConversionLimits, *, processes: int = 2) -> None:
        self._limits = limits
        self._processes = processes
        self._pool: ProcessPool | None = None

    async def run(self, work: Callable[..., T], *arguments: object, label: str) -> T:
        """Run `work(*arguments)` there; `label` is what errors call the file.

        Raises:
            DocumentError: It took too long, too much memory, or the process with it; or what the
                function itself raised.
            ConfigError: No process starts.
        """
        for _ in range(2):
            pool = self._pool = self._pool or self._new_pool()
            try:
                return await self._run(pool, work, arguments, label)
            except BrokenProcessPool:
                # A process died with no file in hand, and took its pool along.
                if self._pool is pool:
                    await self.aclose()
        raise ConfigError(
            "no process that converts files starts: a program that uses several needs its start under "
            '`if __name__ == "__main__":`'
        )

    async def _run(
        self, pool: ProcessPool, work: Callable[..., T], arguments: tuple[object, ...], label: str
    ) -> T:
        try:
            future = pool.schedule(work, args=arguments, timeout=self._limits.seconds)
        except RuntimeError as error:  # the pool has found out meanwhile
            raise BrokenProcessPool(str(error)) from error
        try:
            return await asyncio.wrap_future(future)
        except (FutureTimeoutError, TimeoutError):
            raise DocumentError(
                f"{label}: converting took longer than {self._limits.seconds:g} s", reason="timed-out"
            ) from None
        except MemoryError:
            raise DocumentError(
                f"{label}: converting needs more than {self._limits.memory_bytes >> 20} MiB",
                reason="too-large",
            ) from None
        except ProcessExpired as error:
            raise DocumentError(
                f"{label}: the converter died of it (exit code {error.exitcode})", reason="malformed"
            ) from None

    def _new_pool(self) -> ProcessPool:
        return ProcessPool(
            max_workers=self._processes,
            max_tasks=_FILES_PER_PROCESS,
            initializer=_limit_memory,
            initargs=(self._limits.memory_bytes,),
            # Not forked: the parent may have threads and an event loop.
            context=multiprocessing.get_context("spawn"),
        )

    async def aclose(self) -> None:
        """End the processes; more than once is fine."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.stop()
            await asyncio.to_thread(pool.join)


def _limit_memory(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
