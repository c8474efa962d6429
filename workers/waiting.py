"""Following a job to the end of the run that covers what was asked for."""

import time
from dataclasses import dataclass, field, replace
from datetime import datetime

from tinymemory.errors import InvalidRequestError
from workers.ledger import Enqueued, EnqueueState, JobKey, JobState, JobStatus

FIRST_PAUSE = 0.02
LONGEST_PAUSE = 1.0

Handle = Enqueued | JobKey | str
"""What an enqueue returned, or its key."""


def key_of(handle: Handle) -> JobKey:
    """The key of a handle.

    Raises:
        InvalidRequestError: It is neither an `Enqueued` nor a text.
    """
    if isinstance(handle, Enqueued):
        return handle.key
    if not isinstance(handle, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        raise InvalidRequestError(f"`key` must be a job's key or an Enqueued, not {type(handle).__name__}")
    return JobKey(handle)


@dataclass(slots=True)
class Waiting:
    """One wait: given each status in turn, it says when the wait is over."""

    handle: Handle
    timeout: float | None
    _last: JobStatus | None = field(default=None, init=False)
    _started: float = field(default_factory=time.monotonic, init=False)
    _next_pause: float = field(default=FIRST_PAUSE, init=False)
    _asked_at: datetime | None = field(default=None, init=False)

    def ended_by(self, status: JobStatus) -> JobStatus | None:
        """The answer, once there is one.

        Whoever waits is served by a run that began after the last enqueue he knew of; what others
        enqueue later does not keep him waiting.
        """
        self._last = status
        if self._asked_at is None:
            self._asked_at = status.last_enqueued_at
        if self._asked_at is not None and status.serves(self._asked_at):
            return replace(status, state=JobState.DONE)
        return status if status.is_over and not self._is_on_its_way(status) else None

    def _is_on_its_way(self, status: JobStatus) -> bool:
        spooled = isinstance(self.handle, Enqueued) and self.handle.state is EnqueueState.SPOOLED
        return spooled and status.state is JobState.UNKNOWN

    def pause(self) -> float:
        """Seconds until the next look: short at first, at most one second.

        Raises:
            TimeoutError: The time is up.
        """
        pause = self._next_pause
        self._next_pause = min(1.5 * pause, LONGEST_PAUSE)
        if self.timeout is None:
            return pause
        left = self._started + self.timeout - time.monotonic()
        if left <= 0:
            state = self._last.state.value if self._last else "out of sight, Redis being away"
            raise TimeoutError(f"{key_of(self.handle)} is {state} after {self.timeout:g} s")
        return min(pause, left)
