"""`MemoryJobs`: how a host hands over the slow work, in one round trip and without waiting in vain."""

import asyncio
import contextlib
import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Self, overload

from typing_extensions import TypeIs

from tinymemory.errors import ConfigError, InvalidRequestError, UnavailableError
from tinymemory.jobs import BackgroundJob, BuildBeliefs, IngestBrain
from tinymemory.lifecycle import AgentMemory, PostTurnReport
from tinymemory.model import ensure_is
from tinymemory.namespace import Namespace
from workers.intake import Intake
from workers.ledger import BatchProgress, Enqueued, EnqueueState, JobKey, JobStatus, NewJob
from workers.ledger.readings import PAGE
from workers.link import Link
from workers.replay import Replayer
from workers.settings import DEFAULT_PROFILE, WorkerSettings
from workers.spool import Spool
from workers.waiting import Handle, Waiting, key_of

Job = BackgroundJob | Mapping[str, Any]
"""A job, or its JSON as Python data."""


class MemoryJobs:
    """Hands jobs to the ledger, from event loops and from threads; one for a process is enough.

    Nothing is opened before it is used, and a forked child opens its own.  Without Redis a call
    fails with `UnavailableError` or, with a `spool_dir`, keeps its jobs in files there: at most one
    call waits for that, under 250 ms, until Redis is back.  Usable as a context manager, of either
    kind; closed, it opens again when used again.

    Wherever jobs are given, a refusal is `InvalidRequestError`, and names the field.
    """

    def __init__(self, settings: WorkerSettings) -> None:
        """Raises `ConfigError` when the settings cannot work, as with a malformed `redis_url`."""
        self.settings = settings
        self.spool = Spool.from_settings(settings)
        self._intake = Intake(settings)
        self._link: Link | None = None
        self._replayer: Replayer | None = None
        self._connect()

    @classmethod
    def from_env(cls) -> Self:
        """Built from the environment (`TINYMEMORY_…`) and `tinymemory.toml`.

        Raises:
            ConfigError: A setting does not fit; it is named.
        """
        return cls(WorkerSettings.load())

    # -- handing over

    @overload
    async def enqueue(
        self,
        job: BuildBeliefs,
        *,
        root: Namespace | str,
        profile: str = ...,
        delay: float | None = ...,
    ) -> Enqueued: ...
    @overload
    async def enqueue(
        self,
        job: IngestBrain | Mapping[str, Any],
        *,
        root: Namespace | str,
        profile: str = ...,
        delay: float | None = ...,
    ) -> Enqueued | list[Enqueued]: ...
    @overload
    async def enqueue(
        self, job: Iterable[Job], *, root: Namespace | str, profile: str = ..., delay: float | None = ...
    ) -> list[Enqueued]: ...

    async def enqueue(
        self,
        job: Job | Iterable[Job],
        *,
        root: Namespace | str,
        profile: str = DEFAULT_PROFILE,
        delay: float | None = None,
    ) -> Enqueued | list[Enqueued]:
        """Hand over one job or several: all or none, in one round trip.

        Args:
            job: One job, or an iterable of them.
            root: The tenant's namespace, which no job may leave.
            profile: Which engine runs them.
            delay: Seconds before a build may start; None is `build_delay`.  An ingest is due at once.

        Returns:
            For one job its `Enqueued`; for several a list in their order.  An ingest of more than
            100 documents or 1 MiB is split and has one for each part: so a list, for one job too.

        Raises:
            InvalidRequestError: A job, the root, the profile or the delay is refused.
            UnavailableError: Redis is away and there is no spool, or the spool is full.
        """
        if _is_one(job):
            return _unwrapped(await self._accept(self._one(job, root, profile, delay)))
        return await self._accept(self._several(job, root, profile, delay))

    @overload
    def enqueue_sync(
        self,
        job: BuildBeliefs,
        *,
        root: Namespace | str,
        profile: str = ...,
        delay: float | None = ...,
    ) -> Enqueued: ...
    @overload
    def enqueue_sync(
        self,
        job: IngestBrain | Mapping[str, Any],
        *,
        root: Namespace | str,
        profile: str = ...,
        delay: float | None = ...,
    ) -> Enqueued | list[Enqueued]: ...
    @overload
    def enqueue_sync(
        self, job: Iterable[Job], *, root: Namespace | str, profile: str = ..., delay: float | None = ...
    ) -> list[Enqueued]: ...

    def enqueue_sync(
        self,
        job: Job | Iterable[Job],
        *,
        root: Namespace | str,
        profile: str = DEFAULT_PROFILE,
        delay: float | None = None,
    ) -> Enqueued | list[Enqueued]:
        """As `enqueue`, for hosts without a loop; from any thread."""
        if _is_one(job):
            return _unwrapped(self._accept_sync(self._one(job, root, profile, delay)))
        return self._accept_sync(self._several(job, root, profile, delay))

    async def after_turn(
        self, memory: AgentMemory, report: PostTurnReport, *, profile: str = DEFAULT_PROFILE
    ) -> list[Enqueued]:
        """Hand over a turn's jobs, and see to it that the turn itself is built some day.

        Beside the report's jobs this enqueues the scope's build with `idle_delay`: a thread's last
        few turns, and all of a short thread, are built too.  It is the same job as the regular
        build, which takes it over.  A policy that never builds gets none.  Errors as `enqueue`.
        """
        ensure_is(memory, AgentMemory, "memory")
        ensure_is(report, PostTurnReport, "report")
        root = memory.layout.root
        jobs = self._several(report.jobs, root, profile, None)
        if memory.policy.build_beliefs_every:
            keys = {job.key for job in jobs}
            idle = self._one(memory.history_build(), root, profile, self.settings.idle_delay)
            jobs += [job for job in idle if job.key not in keys]
        return await self._accept(jobs)

    # -- following

    async def status(self, key: Handle) -> JobStatus:
        """Where a job is now, followed into the build it was folded into.

        Raises:
            UnavailableError: Redis is away.
        """
        link = self._connected()
        status = await link.run(link.calls.status(key_of(key)))
        await self._bring_home()
        return status

    def status_sync(self, key: Handle) -> JobStatus:
        """As `status`."""
        link = self._connected()
        status = link.run_sync(link.calls.status(key_of(key)))
        self._bring_home_sync()
        return status

    async def wait(self, key: Handle, timeout: float | None = None) -> JobStatus:
        """Follow a job until the run that covers it is over: `done`, `dead` or `cancelled`.

        A merged or rerun handle waits for a run that began after its enqueue; `run` names it.  An
        outage of Redis is waited out.  A key the ledger does not know is `unknown` at once.

        Raises:
            TimeoutError: It is not over after `timeout` seconds; None waits for ever.
        """
        waiting = Waiting(key, timeout)
        while True:
            with contextlib.suppress(UnavailableError):
                if (answer := waiting.ended_by(await self.status(key))) is not None:
                    return answer
            await asyncio.sleep(waiting.pause())

    def wait_sync(self, key: Handle, timeout: float | None = None) -> JobStatus:
        """As `wait`."""
        waiting = Waiting(key, timeout)
        while True:
            with contextlib.suppress(UnavailableError):
                if (answer := waiting.ended_by(self.status_sync(key))) is not None:
                    return answer
            time.sleep(waiting.pause())

    async def statuses(self, handles: Iterable[Handle]) -> list[JobStatus]:
        """As `status`, of several jobs in their order; in one round trip for every 500.

        Raises:
            UnavailableError: Redis is away.
        """
        keys = list(map(key_of, handles))
        link = self._connected()
        found: list[JobStatus] = []
        for start in range(0, len(keys), PAGE):
            found += await link.run(link.calls.statuses(keys[start : start + PAGE]))
        await self._bring_home()
        return found

    async def progress(self, handles: Iterable[Handle]) -> BatchProgress:
        """Where the parts of a split ingest are, or any jobs, counted by state; errors as `statuses`."""
        statuses = await self.statuses(handles)
        return BatchProgress(len(statuses), **Counter(status.state.value for status in statuses))

    # -- the end

    async def aclose(self) -> None:
        """Close the connections of the running loop, and those that need none."""
        link, replayer = self._link, self._replayer
        self._link = self._replayer = None
        if replayer is not None:
            await asyncio.to_thread(replayer.end)
        if link is not None:
            await link.aclose()

    def close(self) -> None:
        """Close the connections that need no loop; a loop's own need `aclose` in that loop."""
        link, replayer = self._link, self._replayer
        self._link = self._replayer = None
        if replayer is not None:
            replayer.end()
        if link is not None:
            link.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- private

    def _one(self, job: Job, root: Namespace | str, profile: str, delay: float | None) -> list[NewJob]:
        return self._intake.new_jobs(job, root=root, profile=profile, delay=delay)

    def _several(
        self, jobs: Iterable[Job], root: Namespace | str, profile: str, delay: float | None
    ) -> list[NewJob]:
        found: list[NewJob] = []
        for position, job in enumerate(jobs):
            try:
                found += self._intake.new_jobs(job, root=root, profile=profile, delay=delay)
            except InvalidRequestError as error:
                raise InvalidRequestError(f"`jobs[{position}]`: {error.message}") from error
        return found

    async def _accept(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        if not jobs:
            return []
        try:
            accepted = await self._connected().enqueue(jobs)
        except (UnavailableError, ConfigError):
            if self.spool is None:
                raise
            await asyncio.to_thread(self.spool.append, jobs)
            return _spooled(jobs)
        await self._bring_home()
        return accepted

    def _accept_sync(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        if not jobs:
            return []
        try:
            accepted = self._connected().enqueue_sync(jobs)
        except (UnavailableError, ConfigError):
            if self.spool is None:
                raise
            self.spool.append(jobs)
            return _spooled(jobs)
        self._bring_home_sync()
        return accepted

    async def _bring_home(self) -> None:
        replayer = self._replayer
        if replayer is not None and replayer.is_due():
            await asyncio.to_thread(replayer.replay)

    def _bring_home_sync(self) -> None:
        replayer = self._replayer
        if replayer is not None and replayer.is_due():
            replayer.replay()

    def _connected(self) -> Link:
        link = self._link
        if link is not None and link.pid == os.getpid():
            return link
        if link is not None:
            link.abandon()
        return self._connect()

    def _connect(self) -> Link:
        link = self._link = Link(self.settings, back=self._redis_is_back)
        self._replayer = None if self.spool is None else Replayer(self.spool, link)
        return link

    def _redis_is_back(self) -> None:
        replayer = self._replayer
        if replayer is not None:
            replayer.replay(float("inf"))


def _is_one(job: Job | Iterable[Job]) -> TypeIs[Job]:
    # Not "is it iterable": pydantic's models are, and a text is no job but must be refused as one.
    return isinstance(job, BuildBeliefs | IngestBrain | Mapping | str) or not isinstance(job, Iterable)  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped


def _unwrapped(accepted: list[Enqueued]) -> Enqueued | list[Enqueued]:
    return accepted[0] if len(accepted) == 1 else accepted


def _spooled(jobs: Sequence[NewJob]) -> list[Enqueued]:
    # By this machine's clock: Redis's is out of sight.  The delay begins anew with the replay.
    now = datetime.now(UTC)
    return [
        Enqueued(
            key=JobKey(job.key),
            state=EnqueueState.SPOOLED,
            due_at=now + timedelta(seconds=job.delay),
        )
        for job in jobs
    ]
