"""A changed file's old document, forgotten once its new one is stored."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeVar

from tinymemory.engine import MemoryEngine
from tinymemory.errors import TinyMemoryError
from tinymemory.query import MAX_GET_IDS, ForgetTarget, GetRequest
from workers.journal import Journal, Outdated, Version
from workers.ledger import OWED, JobKey, JobState

T = TypeVar("T")
_PAUSE = 0.3


class Replacing:
    """Forgets old versions of files, by the ids the journal knows; nothing else that is stored is touched.

    An old version goes only when the engine shows the new one, so that one of the two is there at any
    time, and when its own ingest is over, so that it does not come after.  What a crash or a slow
    worker leaves undone, the next look does: looking twice does no harm.
    """

    def __init__(
        self,
        journal: Journal,
        *,
        state_of: Callable[[JobKey], Awaitable[JobState]],
        open_engine: Callable[[], MemoryEngine],
    ) -> None:
        self.replaced: list[str] = []
        """The paths whose old versions are gone."""
        self.error: str | None = None
        """Why the last look could not do its work, if it could not."""
        self._journal = journal
        self._state_of = state_of
        self._open_engine = open_engine

    @property
    def left(self) -> list[str]:
        """The paths of which an old version may still be stored."""
        return [file.path for file in self._journal.outdated()]

    async def run(self, seconds: float = 0.0) -> None:
        """Look, and for so many seconds again while ingests that matter are on their way.

        Never raises because of the ledger or the engine; see `error`.
        """
        until = time.monotonic() + seconds
        while await self._look() and time.monotonic() < until:  # noqa: ASYNC110  # nobody tells us
            await asyncio.sleep(_PAUSE)

    async def _look(self) -> bool:
        """Forget what can be forgotten; whether more can be soon."""
        if not self._journal.outdated():
            return False
        try:
            async with self._journal.alone():
                more = await self._replace(self._journal.outdated())
        except TinyMemoryError as error:
            self.error = str(error)
            return error.is_transient
        self.error = None
        return more

    async def _replace(self, files: Sequence[Outdated]) -> bool:
        # Asked before anything is forgotten: an ingest that is over now stores nothing any more.
        jobs = {version.job for file in files for version in (file.current, *file.old)}
        states = {job: await self._state_of(job) for job in jobs}
        # A dead one may be retried: nobody waits for it, and what it stores then is on the list still.
        settled = {job for job, state in states.items() if state not in (*OWED, JobState.DEAD)}
        ready = [file for file in files if file.current.job in settled]
        goners = [(file, old) for file in ready for old in file.old if old.job in settled]
        if goners:
            async with await asyncio.to_thread(self._open_engine) as engine:
                held = await _held(engine, list(dict.fromkeys(file.current.id for file, _ in goners)))
                stored = [(file.path, old) for file, old in goners if file.current.id in held]
                for some in _chunks(stored, MAX_GET_IDS):
                    await self._forget(engine, some)
        return any(state in OWED for state in states.values())

    async def _forget(self, engine: MemoryEngine, goners: Sequence[tuple[str, Version]]) -> None:
        await engine.forget(ForgetTarget.ids([version.id for _, version in goners]))
        await asyncio.to_thread(self._journal.gone, goners)
        self.replaced += list(dict.fromkeys(path for path, _ in goners))


async def _held(engine: MemoryEngine, ids: Sequence[str]) -> set[str]:
    held: set[str] = set()
    for some in _chunks(ids, MAX_GET_IDS):
        held.update(hit.id for hit in await engine.get(GetRequest(ids=tuple(some))))
    return held


def _chunks(things: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(things), size):
        yield things[start : start + size]
