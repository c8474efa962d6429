"""Waiting until what was written can be read, and finding again what may have been written."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress

from tinymemory.engines.cortex.labels import item_label
from tinymemory.engines.cortex.layout import Event
from tinymemory.engines.cortex.log import Log
from tinymemory.engines.cortex.packs import PROBE
from tinymemory.engines.cortex.stored import RawEvent
from tinymemory.engines.cortex.timing import Timing
from tinymemory.errors import TinyMemoryError, UnavailableError

SETTLE_QUERY = 256
"""How much of an event's text a probe asks for, in characters."""


class Waiter:
    """Polls one log."""

    def __init__(self, log: Log, timing: Timing) -> None:
        self._log = log
        self._timing = timing

    async def listed(self, event: Event, event_id: str) -> None:
        """Return once a listing holds the event.

        Raises:
            UnavailableError: It does not, for the whole of `Timing.visibility_budget`.
            TinyMemoryError: A listing failed; on the hosted wire only when that will not pass.
        """
        look = _Look(lambda found: found.id == event_id, rides_out=self._log.surface.is_hosted)
        if await self._found(event, look) is None:
            raise UnavailableError(
                f"the event was accepted into {event.scope} but did not become readable within "
                f"{self._timing.visibility_budget:g} s; calling it done would break read-after-write "
                f"({look})",
                retry_after=look.retry_after,
            ) from look.last_failure

    async def recovered(self, event: Event) -> str:
        """The id of an event that a claim was taken for, and that may or may not have been written.

        Raises:
            UnavailableError: It was not found, so the outcome is unknown.
        """
        # By all that was written, not by the words alone: another turn may say the same.
        look = _Look(lambda found: found.text == event.text and found.labels == event.labels, rides_out=True)
        found = await self._found(event, look)
        if found is None:
            raise UnavailableError(
                f"the outcome of a write into {event.scope} is unknown: its claim was taken, and within "
                f"{self._timing.visibility_budget:g} s the event was not found: {look}",
                retry_after=look.retry_after,
            ) from look.last_failure
        return found.id

    async def settled(self, event: Event, event_id: str) -> None:
        """Return once a ranked read finds the event, or the budget is over, or a read fails.

        The event is durable and listed by then: nothing is lost when this gives up.
        """
        query = event.text[:SETTLE_QUERY]
        with suppress(TinyMemoryError, TimeoutError):
            # A recall that hangs may not hold the store up either.
            async with asyncio.timeout(self._timing.settle_budget):
                for gap in self._gaps(self._timing.settle_budget):
                    await self._timing.sleep(gap)
                    pack = await self._log.recall(event.scope, query, PROBE)
                    if any(found.id == event_id for found in pack.events):
                        return

    async def _found(self, event: Event, look: "_Look") -> RawEvent | None:
        for gap in self._gaps(self._timing.visibility_budget):
            await self._timing.sleep(gap)
            found = await look.once(self._log, event)
            if found is not None:
                return found
        return None

    def _gaps(self, budget: float) -> Iterator[float]:
        """How long to sleep before each poll: 0 before the first; the last ends with the budget."""
        clock, gap = self._timing.clock, self._timing.poll_gap
        deadline = clock() + budget
        yield 0.0
        while (left := deadline - clock()) > 0:
            yield min(gap, left)
            if self._log.surface.is_hosted:  # its budget is 300 requests a minute
                gap = min(gap * 2, self._timing.poll_gap_cap)


class _Look:
    """What is looked for, and how the looking went."""

    def __init__(self, is_it: Callable[[RawEvent], bool], *, rides_out: bool) -> None:
        self.polls = 0
        self.failures = 0
        self.last_failure: UnavailableError | None = None
        self._is_it = is_it
        self._rides_out = rides_out

    @property
    def retry_after(self) -> float | None:
        """Seconds the last failure asked for: a wait that a rate limit used up is no fault of the write."""
        return None if self.last_failure is None else self.last_failure.retry_after

    def __str__(self) -> str:
        counts = f"{self.polls} polls answered without it and {self.failures} failed"
        return counts if self.last_failure is None else f"{counts}, the last with {self.last_failure.message}"

    async def once(self, log: Log, event: Event) -> RawEvent | None:
        try:
            # The newest page is enough: the event was written last.
            page = await log.page(event.scope, [item_label(event.item_id)])
        except UnavailableError as error:
            if not self._rides_out:
                raise
            self.failures += 1
            self.last_failure = error
            return None
        self.polls += 1
        return next((found for found in page.events if found is not None and self._is_it(found)), None)
