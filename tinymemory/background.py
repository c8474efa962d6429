"""Running background jobs: the runner, and its report of what came of one."""

from enum import StrEnum
from typing import Self

from pydantic import Field

from tinymemory.brain import Brain, Progress
from tinymemory.engine import MemoryEngine
from tinymemory.errors import InvalidRequestError, UnsupportedError
from tinymemory.items import StoreReceipt
from tinymemory.jobs import BackgroundJob, BuildBeliefs, IngestBrain, parse_job
from tinymemory.layout import MemoryLayout
from tinymemory.model import Value, ensure_is
from tinymemory.query import ConsolidateReceipt, ConsolidateStatus

__all__ = [
    "BackgroundJob",
    "BackgroundRunner",
    "BuildBeliefs",
    "IngestBrain",
    "JobOutcome",
    "JobReport",
    "OutcomeKind",
    "parse_job",
]


class OutcomeKind(StrEnum):
    """How a job went."""

    DONE = "done"
    STARTED = "started"
    """The engine began, and goes on by itself."""
    SCHEDULED = "scheduled"
    """The engine does it on a schedule of its own."""
    SKIPPED = "skipped"
    """The engine offers nothing of the kind."""


class JobOutcome(Value):
    """How a job went, and why when it was skipped."""

    outcome: OutcomeKind
    reason: str | None = None

    @classmethod
    def done(cls) -> Self:
        """All of it is done."""
        return cls(outcome=OutcomeKind.DONE)

    @classmethod
    def started(cls) -> Self:
        """The engine began, and goes on by itself."""
        return cls(outcome=OutcomeKind.STARTED)

    @classmethod
    def scheduled(cls) -> Self:
        """The engine does it on a schedule of its own."""
        return cls(outcome=OutcomeKind.SCHEDULED)

    @classmethod
    def skipped(cls, reason: str) -> Self:
        """The engine offers nothing of the kind."""
        return cls(outcome=OutcomeKind.SKIPPED, reason=reason)


_OUTCOMES = {
    ConsolidateStatus.COMPLETED: OutcomeKind.DONE,
    ConsolidateStatus.STARTED: OutcomeKind.STARTED,
    ConsolidateStatus.SCHEDULED: OutcomeKind.SCHEDULED,
}


class JobReport(Value):
    """What came of a job."""

    job: str
    """The job's name."""
    outcome: JobOutcome
    consolidation: ConsolidateReceipt | None = None
    """What the engine answered to a build."""
    stored: list[StoreReceipt] = Field(default_factory=list[StoreReceipt])
    """What an ingest stored, in the order of its documents."""
    follow_ups: list[BuildBeliefs] = Field(default_factory=list[BuildBeliefs])
    """The jobs that should run next: a build per source an ingest touched."""


class BackgroundRunner:
    """Runs jobs against an engine; knows no queue and starts no task."""

    def __init__(self, engine: MemoryEngine, layout: MemoryLayout) -> None:
        ensure_is(engine, MemoryEngine, "engine")
        ensure_is(layout, MemoryLayout, "layout")
        self.engine = engine
        self.layout = layout

    async def run(self, job: BackgroundJob, *, progress: Progress | None = None) -> JobReport:
        """Run one job to its end.

        A build on an engine that builds nothing is skipped, so the same host code runs on any engine.

        Args:
            job: What to do; doing it twice does no harm.
            progress: Told after each batch of an ingest.

        Raises:
            InvalidRequestError: The job is malformed; nothing was done.
            TinyMemoryError: What the engine raised.
        """
        match job:
            case BuildBeliefs():
                return await self._build(job)
            case IngestBrain():
                return await self._ingest(job, progress)
            case _:  # callers may be untyped
                raise InvalidRequestError(
                    f"`job` must be a background job, not {type(job).__name__}: `parse_job` makes one of JSON"
                )

    async def _build(self, job: BuildBeliefs) -> JobReport:
        job.ensure_valid()
        try:
            receipt = await self.engine.consolidate(job.request)
        except UnsupportedError as error:
            return JobReport(job=job.name, outcome=JobOutcome.skipped(str(error)))
        outcome = JobOutcome(outcome=_OUTCOMES[receipt.status])
        return JobReport(job=job.name, outcome=outcome, consolidation=receipt)

    async def _ingest(self, job: IngestBrain, progress: Progress | None) -> JobReport:
        batch = await Brain(self.engine, self.layout).ingest_many(job.documents, progress=progress)
        return JobReport(
            job=job.name, outcome=JobOutcome.done(), stored=batch.receipts, follow_ups=batch.jobs
        )
