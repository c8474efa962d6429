"""A changed file's old document, forgotten once its new one is stored."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TypeVar

from tinymemory.engine import MemoryEngine
from tinymemory.errors import TinyMemoryError
from tinymemory.query import MAX_GET_IDS, ForgetTarget, GetRequest
from workers.journal import Journal, Outdated, Version
from workers.ledger import OWED, JobKey, JobState

T = TypeVar("T")
StatesOf = Callable[[Iterable[JobKey]], Awaitable[Mapping[JobKey, JobState]]]
STEP = 50
"""Files that are looked at, and forgotten, at once: nobody else sends any meanwhile."""
STEP_SECONDS = 10.0
"""What a step may take, the wait for its turn included."""
_PAUSE = 0.3
_Goner = tuple[Outdated, Version]


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
        states_of: StatesOf,
        open_engine: Callable[[], MemoryEngine],
        step_seconds: float = STEP_SECONDS,
    ) -> None:
        self.replaced: list[str] = []
        """The paths whose old versions are gone."""
        self.error: str | None = None
        """Why the last look could not do its work, if it could not."""
        self._journal = journal
        self._states_of = states_of
        self._open_engine = open_engine
        self._step_seconds = step_seconds

    @property
    def left(self) -> list[str]:
        """The paths of which an old version may still be stored."""
        return [file.path for file in self._journal.outdated()]

    async def run(self, seconds: float = 0.0) -> None:
        """Look, and for so many seconds again while ingests that matter are on their way.

        Never raises because of the ledger, the engine or the journal; see `error`.
        """
        until = time.monotonic() + seconds
        while await self._look() and time.monotonic() < until:  # noqa: ASYNC110  # nobody tells us
            await asyncio.sleep(_PAUSE)

    async def _look(self) -> bool:
        """Forget what can be forgotten; whether more can be soon."""
        more = False
        try:
            async with AsyncExitStack() as stack:
                engine: MemoryEngine | None = None
                for files in _chunks(self._journal.outdated(), STEP):
                    # A step by itself, so that those who send wait for one at the most.
                    async with asyncio.timeout(self._step_seconds), self._journal.alone():
                        states, goners = await self._goners([file.path for file in files])
                        if goners:
                            engine = engine or await stack.enter_async_context(await self._opened())
                            await self._forget(engine, goners)
                    more = more or any(state in OWED for state in states.values())
        except TimeoutError:
            self.error = f"a step of {STEP} files took longer than {self._step_seconds:g} s"
            return False
        except TinyMemoryError as error:
            self.error = str(error)
            return error.is_transient
        self.error = None
        return more

    async def _goners(self, paths: Sequence[str]) -> tuple[Mapping[JobKey, JobState], list[_Goner]]:
        """Where the ingests of files are, and which old versions may go once the new ones are stored."""
        files = self._journal.outdated(paths)
        # Asked before anything is forgotten: an ingest that is over now stores nothing any more.
        states = await self._states_of({one.job for file in files for one in (file.current, *file.old)})
        # A dead one may be retried: nobody waits for it, and what it stores then is on the list still.
        settled = {job for job, state in states.items() if state not in (*OWED, JobState.DEAD)}
        ready = [file for file in files if file.current.job in settled]
        return states, [(file, old) for file in ready for old in file.old if old.job in settled]

    async def _opened(self) -> MemoryEngine:
        return await asyncio.to_thread(self._open_engine)

    async def _forget(self, engine: MemoryEngine, goners: Sequence[_Goner]) -> None:
        news = list(dict.fromkeys(file.current.id for file, _ in goners))
        held = {hit.id for hit in await engine.get(GetRequest(ids=tuple(news)))}
        stored = [(file.path, old) for file, old in goners if file.current.id in held]
        for some in _chunks(stored, MAX_GET_IDS):
            await asyncio.to_thread(self._journal.going, some)
            await engine.forget(ForgetTarget.ids([version.id for _, version in some]))
            await asyncio.to_thread(self._journal.gone, some)
            self.replaced += list(dict.fromkeys(path for path, _ in some))


def _chunks(things: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(things), size):
        yield things[start : start + size]
