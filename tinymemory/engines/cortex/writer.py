"""Putting events into the log: in bulks where that exists, behind claims where it does not."""

from collections.abc import Iterator, Sequence

from tinymemory.engines.cortex.layout import Event
from tinymemory.engines.cortex.log import FORGET_BATCH, Appended, Log
from tinymemory.engines.cortex.scope import Scope
from tinymemory.engines.cortex.timing import Timing
from tinymemory.engines.cortex.waiting import Waiter
from tinymemory.errors import ConflictError, NotFoundError, UnavailableError

HOSTED_ATTEMPTS = 3
BULK_EVENTS = 500
BULK_BYTES = 16 * 1024 * 1024


class Writer:
    """Writes and removes events, knowing what each wire needs for that."""

    def __init__(self, log: Log, waiter: Waiter, timing: Timing) -> None:
        self._log = log
        self._waiter = waiter
        self._timing = timing

    async def write(self, events: Sequence[Event], *, is_indexed: bool) -> list[Appended]:
        """Append events in order.

        Raises:
            TinyMemoryError: What came before is stored; writing the same events again is safe only
                for those a lookup does not find.
        """
        if self._log.surface.is_hosted:
            return [await self._claimed(event) for event in events]
        if len(events) == 1:
            return [await self._log.append(events[0], is_indexed=is_indexed)]
        appended: list[Appended] = []
        for bulk in _bulks(events):
            appended += await self._log.append_many(bulk, is_indexed=is_indexed)
        return appended

    async def forget(self, scope: Scope, event_ids: Sequence[str]) -> None:
        """Remove a scope's events by id; none sends nothing."""
        for start in range(0, len(event_ids), FORGET_BATCH):
            await self._forget_batch(scope, event_ids[start : start + FORGET_BATCH])

    async def _claimed(self, event: Event) -> Appended:
        """Append one event on the hosted wire, whose every attempt carries the same claim.

        A claim is taken before the event is written, and kept when writing fails: a conflict on a
        later attempt therefore says that an earlier one got through, and may have been applied.
        """
        claim = self._log.claim()
        attempt = 1
        while True:
            try:
                return await self._log.append(event, is_indexed=False, claim=claim)
            except ConflictError:
                if attempt == 1:
                    raise
                return Appended(await self._waiter.recovered(event), is_replay=False)
            except UnavailableError:
                if attempt == HOSTED_ATTEMPTS:
                    raise
            await self._pause_after(attempt)
            attempt += 1

    async def _forget_batch(self, scope: Scope, event_ids: Sequence[str]) -> None:
        attempt = 1
        while True:
            try:
                return await self._log.forget(scope, event_ids)
            except NotFoundError:
                if attempt == 1:
                    raise
                return None  # an earlier attempt did it, and its answer was lost
            except UnavailableError:
                if not self._log.surface.is_hosted or attempt == HOSTED_ATTEMPTS:
                    raise
            await self._pause_after(attempt)
            attempt += 1

    async def _pause_after(self, attempt: int) -> None:
        await self._timing.sleep(self._timing.poll_gap * 2 ** (attempt - 1))


def _bulks(events: Sequence[Event]) -> Iterator[Sequence[Event]]:
    start, size = 0, 0
    for index, event in enumerate(events):
        if index - start == BULK_EVENTS or (index > start and size + len(event.body) > BULK_BYTES):
            yield events[start:index]
            start, size = index, 0
        size += len(event.body)
    if start < len(events):
        yield events[start:]
