"""How a run ends, and what the ledger makes of it."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from workers.ledger.jobs import Enqueued, JobState, NewJob


class Outcome(StrEnum):
    """How a run went, as the history says it."""

    DONE = "done"
    STARTED = "started"
    SCHEDULED = "scheduled"
    SKIPPED = "skipped"
    FOLDED = "folded"
    RETRY = "retry"
    LOST = "lost"
    CANCELLED = "cancelled"
    DEAD = "dead"


SERVED = frozenset({Outcome.DONE, Outcome.STARTED, Outcome.SCHEDULED, Outcome.SKIPPED})
"""What a run may settle with."""


class FailureKind(StrEnum):
    """What a failure means for its job, its tenant and its engine."""

    TRANSIENT = "transient"
    """`UnavailableError`: retry with backoff, counted; enough of them in a row open the profile's breaker."""
    THROTTLED = "throttled"
    """The same, said with a time to come back and not counted as an attempt."""
    ATTEMPT = "attempt"
    """`EngineError`, a timeout, anything unforeseen: retry with backoff, counted."""
    PERMANENT = "permanent"
    """Dead at once."""
    CREDENTIAL = "credential"
    """Opens the breaker of (profile, root); parked, not counted."""
    UNREACHABLE = "unreachable"
    """Opens the breaker of the profile; parked, not counted."""
    NEWER = "newer"
    """A newer release wrote it: back to waiting, not counted; dead after `newer_envelope_grace`."""
    SHUTDOWN = "shutdown"
    """The worker stops: back to waiting, due at once, nothing counted."""


@dataclass(frozen=True, slots=True)
class JobError:
    """Why a run failed; already without credentials and user text."""

    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class Success:
    """A run that did what there was to do."""

    outcome: Outcome = Outcome.DONE
    built: int | None = None
    """Beliefs built, when it is known."""
    scopes: int | None = None
    stored: int | None = None
    """Documents stored; counts only, never content."""
    follow_ups: tuple[NewJob, ...] = field(default=())
    """Jobs of the same root, enqueued in the same step."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A run that did not."""

    kind: FailureKind
    error: JobError
    retry_after: float | None = None
    """Seconds the engine asked for; a retry waits at least that long."""


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of a job whose run succeeded: `done`, or `waiting` for the enqueues it did not serve."""

    state: JobState
    due_at: datetime | None
    """Of a `waiting` one."""
    follow_ups: tuple[Enqueued, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """What became of a job whose run failed: `waiting`, `parked` or `dead`."""

    state: JobState
    due_at: datetime | None
    """Of a `waiting` one."""
    opened: bool
    """Whether this failure opened a breaker."""


@dataclass(frozen=True, slots=True)
class Reaped:
    """What one round of reaping took back."""

    returned: int
    """Doorbells nobody answered: waiting again, nothing counted."""
    lost: int
    """Runs whose worker fell silent, the dead ones included."""
    dead: int
    """Those of them that were lost for the last time."""
    unparked: int
    """Parked jobs whose breaker is closed: waiting again."""
    more: bool
    """Whether a bound ended the round; call again."""
