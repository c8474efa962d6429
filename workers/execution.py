"""Doing a job: from the envelope the ledger kept to what the ledger is told."""

from itertools import chain

from tinymemory.background import BackgroundRunner, JobReport
from tinymemory.layout import MemoryLayout
from tinymemory.namespace import Namespace
from workers.engines import EngineCache
from workers.envelope import Envelope, NewerEnvelope, UnreadableEnvelope, open_envelope
from workers.intake import Intake
from workers.ledger import Failure, FailureKind, JobError, NewJob, Outcome, Party, Run, Success
from workers.settings import WorkerSettings


class Executor:
    """Runs jobs on the engines of their own root and profile."""

    def __init__(self, engines: EngineCache, settings: WorkerSettings) -> None:
        self._engines = engines
        self._intake = Intake(settings)

    async def execute(self, run: Run) -> Success | Failure:
        """Do one job.

        Raises:
            TinyMemoryError: What the engine raised, or what is wrong with the job.
        """
        match open_envelope(run.envelope):
            case Envelope() as envelope:
                return await self._execute(run, envelope)
            case NewerEnvelope() as newer:
                return Failure(FailureKind.NEWER, JobError("NewerEnvelope", newer.reason))
            case UnreadableEnvelope() as unreadable:
                return Failure(FailureKind.PERMANENT, JobError("UnreadableEnvelope", unreadable.reason))

    async def _execute(self, run: Run, envelope: Envelope) -> Success:
        # The key's root, not the envelope's: it is what the ledger counted, capped and parked it by.
        root = Namespace.parse(run.root)
        envelope.job.ensure_within(root)
        async with self._engines.engine(Party(run.root, run.profile)) as engine:
            report = await BackgroundRunner(engine, MemoryLayout(root)).run(envelope.job)
        return self._success(report, root, run.profile)

    def _success(self, report: JobReport, root: Namespace, profile: str) -> Success:
        receipt = report.consolidation
        return Success(
            Outcome(report.outcome.outcome.value),
            built=receipt.built if receipt else None,
            scopes=receipt.scopes if receipt else None,
            stored=len(report.stored) if report.job == "ingest_brain" else None,
            follow_ups=self._follow_ups(report, root, profile),
        )

    def _follow_ups(self, report: JobReport, root: Namespace, profile: str) -> tuple[NewJob, ...]:
        jobs = (self._intake.new_jobs(job, root=root, profile=profile) for job in report.follow_ups)
        return tuple(chain.from_iterable(jobs))
