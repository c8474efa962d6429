"""What the ledger keeps: a job on its way in, the right to run it, and the run."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NewType

from pydantic import AwareDatetime, BaseModel, ConfigDict

JobKey = NewType("JobKey", str)
"""`build:<root>:<20 hex>` or `ingest:<root>:<20 hex>`; the same work has the same key."""


class JobState(StrEnum):
    """Where a job is; `unknown` is one the ledger never held, or has forgotten."""

    WAITING = "waiting"
    QUEUED = "queued"
    RUNNING = "running"
    PARKED = "parked"
    DONE = "done"
    DEAD = "dead"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


OWED = (JobState.WAITING, JobState.QUEUED, JobState.RUNNING, JobState.PARKED)
"""The states a job leaves again by itself."""


class EnqueueState(StrEnum):
    """What became of an enqueued job; `spooled` is a host's answer while Redis is away."""

    NEW = "new"
    MERGED = "merged"
    RERUN = "rerun"
    SPOOLED = "spooled"


class Priority(StrEnum):
    """How urgent a doorbell is within its queue."""

    HIGH = "high"
    NORMAL = "normal"


@dataclass(frozen=True, slots=True)
class Coverage:
    """What a belief build covers: a reach and kinds; the ledger folds what another one covers."""

    at: str
    inherit: bool
    descendants: bool
    kinds: tuple[str, ...] = ()
    """`document`, `conversation`, `learning`; empty is all three."""


@dataclass(frozen=True, slots=True)
class NewJob:
    """One job to enqueue.  Its root is read from its key."""

    key: str
    queue: str
    profile: str
    scope: str
    """What people see in its place, such as `team:acme/agent:support-01 [conversation]`; one line."""
    envelope: str
    """JSON the ledger keeps and never reads."""
    delay: float = 0.0
    """Seconds from now, at least 0; an ingest's is ignored."""
    coverage: Coverage | None = None
    """A build's; None never folds."""
    batch: str = ""
    """The ingest it is a part of; empty for none."""


class Enqueued(BaseModel):
    """What the ledger did with one job."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    key: JobKey
    state: EnqueueState
    due_at: AwareDatetime
    """When it may be claimed, by Redis's clock; of a `rerun`, were the present run to end now."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to run one job once; `token` is the fencing token claim handed out."""

    key: JobKey
    token: int

    @property
    def task_id(self) -> str:
        """`<key>:<token>`, the Celery task's id."""
        return f"{self.key}:{self.token}"


@dataclass(frozen=True, slots=True)
class Doorbell:
    """A claimed job: what has to be published."""

    lease: Lease
    type: str
    """`build_beliefs` or `ingest_brain`."""
    queue: str
    priority: Priority
    root: str
    profile: str
    scope: str


@dataclass(frozen=True, slots=True)
class Claimed:
    """What one claim did."""

    doorbells: tuple[Doorbell, ...]
    folded: int
    """Builds that another one claimed, queued or running now covers."""
    parked: int
    """Jobs an open breaker held back."""


@dataclass(frozen=True, slots=True)
class Run:
    """A job that has begun."""

    lease: Lease
    type: str
    queue: str
    root: str
    profile: str
    scope: str
    envelope: str
    attempts: int
    """Runs begun in this series, this one and lost ones included."""
    losses: int
    merged: int
    """Enqueues after the first."""
    due_at: datetime
    begun_at: datetime
    lease_ends_at: datetime
