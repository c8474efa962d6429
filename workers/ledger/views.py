"""What hosts and operators read from the ledger; the field names are public."""

from dataclasses import astuple, dataclass
from datetime import datetime
from typing import Self

from pydantic import AwareDatetime, BaseModel, ConfigDict

from workers.ledger.jobs import JobKey, JobState
from workers.ledger.outcomes import Outcome

_VIEW = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class ErrorView(BaseModel):
    """Why the last run failed."""

    model_config = _VIEW

    kind: str
    message: str


class JobView(BaseModel):
    """One job as `jobs list` and `jobs dead` show it."""

    model_config = _VIEW

    key: JobKey
    type: str
    root: str
    scope: str
    profile: str
    state: JobState
    due_at: AwareDatetime
    first_enqueued_at: AwareDatetime
    last_enqueued_at: AwareDatetime
    merged: int
    """Enqueues after the first."""
    attempts: int
    """Runs begun in this series, lost ones too."""
    losses: int
    error: ErrorView | None


class JobDetail(JobView):
    """One job as `jobs show` shows it, finished ones too."""

    queue: str
    batch: str | None
    worker: str | None
    """Who runs it, or ran it last."""
    run: str | None
    """The task id of the run in flight, else of the last one that ended."""
    outcome: Outcome | None
    """Of a finished one."""
    into: JobKey | None
    """Of a folded one: the build that covers it."""
    lease_ends_at: AwareDatetime | None
    finished_at: AwareDatetime | None


class HistoryView(BaseModel):
    """One run, or one job that ended without a run of its own (folded, cancelled)."""

    model_config = _VIEW

    key: JobKey
    type: str
    root: str
    scope: str
    profile: str
    outcome: Outcome
    built: int | None
    scopes: int | None
    stored: int | None
    attempts: int
    merged: int
    waited_s: float
    """From the first enqueue to the start."""
    ran_s: float
    lag_s: float
    """From due to the start."""
    worker: str | None
    finished_at: AwareDatetime
    error: ErrorView | None
    into: JobKey | None
    """Of a folded one: the build that covers it."""


class BreakerView(BaseModel):
    """An open breaker: of one root at one profile, or of the whole profile (`root` is None)."""

    model_config = _VIEW

    profile: str
    root: str | None
    reason: str
    since: AwareDatetime
    next_probe_at: AwareDatetime
    parked: int


class StatsView(BaseModel):
    """The whole ledger in one object; `jobs stats` adds the spool."""

    model_config = _VIEW

    waiting: int
    """`due` included."""
    due: int
    """Those held by a cap included."""
    queued: int
    running: int
    parked: int
    dead: int
    oldest_due_age_s: float | None
    """None when nothing is due."""
    done_total: int
    retried_total: int
    throttled_total: int
    """Of the retried: those a rate limit turned away or that were told when to come back; no attempt."""
    dead_total: int
    merged_total: int
    breakers: list[BreakerView]


@dataclass(frozen=True, slots=True)
class LaneStats:
    """The same for one queue and profile, for metrics.  Totals only ever grow."""

    queue: str
    profile: str
    waiting: int = 0
    due: int = 0
    queued: int = 0
    running: int = 0
    parked: int = 0
    dead: int = 0
    oldest_due_age_s: float | None = None
    enqueued_total: int = 0
    """Accepted ones, merged ones included."""
    new_total: int = 0
    """The enqueues that began a series."""
    rerun_total: int = 0
    """Those that flagged a run to be followed by another one."""
    merged_total: int = 0
    claimed_total: int = 0
    begun_total: int = 0
    done_total: int = 0
    """started, scheduled and skipped included."""
    retried_total: int = 0
    throttled_total: int = 0
    """Of the retried: those that cost no attempt, a rate limit or a pause the engine named."""
    lost_total: int = 0
    folded_total: int = 0
    cancelled_total: int = 0
    dead_total: int = 0
    dead_evicted_total: int = 0
    history_evicted_total: int = 0
    run_ms_total: int = 0
    lag_ms_total: int = 0
    """Start minus due, over all runs begun."""


class RootStats(BaseModel):
    """What one root is owed."""

    model_config = _VIEW

    root: str
    waiting: int
    due: int
    in_flight: int
    parked: int
    oldest_due_age_s: float | None


@dataclass(frozen=True, slots=True, eq=False)
class JobStatus:
    """Where a job is, followed through what it was merged or folded into.

    Prints as its state, and equals its state's name: `status == "waiting"`.
    """

    key: JobKey
    """The job that covers the one asked for: itself, unless it was folded."""
    state: JobState
    last_enqueued_at: datetime | None
    """None when unknown."""
    served_through: datetime | None
    """Every enqueue before then is served by a run that succeeded; None when none did."""
    run: str | None
    """`<key>:<token>` of the run in flight, else of the last one that succeeded."""

    def __str__(self) -> str:
        return self.state.value

    def __eq__(self, other: object) -> bool:
        match other:
            case JobStatus():
                return astuple(self) == astuple(other)
            case str():
                return self.state == other
            case _:
                return NotImplemented

    def __hash__(self) -> int:
        # The state's: what equals must hash alike.
        return hash(self.state)

    @property
    def is_over(self) -> bool:
        """Whether nothing more happens by itself."""
        return self.state in (JobState.DONE, JobState.DEAD, JobState.CANCELLED, JobState.UNKNOWN)

    def serves(self, enqueued_at: datetime) -> bool:
        """Whether what was enqueued then has been done, whatever was enqueued since."""
        return self.served_through is not None and self.served_through > enqueued_at


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """Where the parts of one ingest are; the states add up to `total`."""

    total: int
    waiting: int = 0
    queued: int = 0
    running: int = 0
    parked: int = 0
    done: int = 0
    dead: int = 0
    cancelled: int = 0
    unknown: int = 0
    """Finished so long ago that the history has forgotten them."""

    def plus(self, other: Self) -> Self:
        """Both together."""
        return type(self)(*(a + b for a, b in zip(self.counts, other.counts, strict=True)))

    @property
    def counts(self) -> tuple[int, ...]:
        """The fields in order."""
        return tuple(getattr(self, name) for name in self.__slots__)


@dataclass(frozen=True, slots=True)
class Party:
    """A root at a profile: what an engine is made for."""

    root: str
    profile: str


@dataclass(frozen=True, slots=True)
class Active:
    """A party with writes that no nightly build has covered yet."""

    party: Party
    last_enqueued_at: datetime


@dataclass(frozen=True, slots=True)
class Probe:
    """A breaker to ask about: call `health()` of `via`, and close it when that is well."""

    profile: str
    root: str | None
    """None: the whole profile."""
    via: str
    """The root whose failure opened it."""
    reason: str
