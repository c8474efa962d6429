"""The runs of one process: each begun, kept alive, ended and settled in the ledger."""

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from enum import StrEnum
from time import monotonic
from typing import Any, TypeVar

from redis.exceptions import RedisError

from tinymemory.errors import EngineError
from workers.doorbell import TASK_BY_TYPE, Bell
from workers.events import Rows
from workers.failure import failure_of
from workers.ledger import (
    Call,
    Claimed,
    Failure,
    FailureKind,
    JobError,
    JobState,
    Lease,
    Ledger,
    Run,
    Success,
)
from workers.redaction import Redactor

T = TypeVar("T")
Execute = Callable[[Run], Coroutine[Any, Any, Success | Failure]]

_WATCH_SECONDS = 2.0
"""How soon a running job notices that it was dropped; renewing more often than needed is cheap."""
_UNWIND_SECONDS = 10.0
"""How long a cancelled run may take to clean up before it is left behind."""
_IDLE_POLL = 0.02
_LEDGER_PAUSES = (0.1, 0.2, 0.5, 1.0)

log = logging.getLogger(__name__)


class Verdict(StrEnum):
    """What became of a doorbell."""

    STALE = "stale"
    """Nothing was run: the token is void, or the job is parked."""
    SERVED = "served"
    AGAIN = "again"
    """It will run again: a retry, a lost lease, a stopping worker."""
    DEAD = "dead"
    CANCELLED = "cancelled"
    """Dropped while it ran."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a doorbell was answered."""

    verdict: Verdict
    result: str = ""
    """The outcome as JSON: what it was and counts, never content."""
    why: str = ""
    """`class: message` of the error, sanitised."""


@dataclass(frozen=True, slots=True)
class RunLimits:
    """The durations a run lives by, in seconds."""

    lease: float = 120.0
    job_timeout: float = 600.0
    spell: float = 2.0
    """How long one doorbell is answered with run after run.

    To publish, receive and hand over a message costs several times what a short run's bookkeeping
    does.  Runs that take longer get a doorbell each, and whatever else waits in the broker waits
    this much longer for a slot at the most.
    """


@dataclass(frozen=True, slots=True)
class _Next:
    """What the end of a run brought along."""

    run: Run | None = None
    """Begun already."""
    claimed: Claimed | None = None
    """To be rung for."""


class _Why(StrEnum):
    VOID = "void"
    SILENT = "silent"
    SHUTDOWN = "shutdown"


@dataclass(slots=True)
class _Running:
    task: asyncio.Task[Success | Failure]
    renewed_at: float
    why: _Why | None = None

    def cancel(self, why: _Why) -> None:
        if self.why is None:
            self.why = why
            self.task.cancel()


class Runs:
    """Runs claimed jobs on one event loop, and keeps their leases while they run.

    `execute` does the job itself; whatever it raises is settled by the failure table.
    """

    def __init__(
        self,
        ledger: Ledger,
        bell: Bell,
        rows: Rows,
        execute: Execute,
        *,
        limits: RunLimits,
        worker: str,
        redactor: Redactor,
    ) -> None:
        self._ledger = ledger
        self._bell = bell
        self._rows = rows
        self._execute = execute
        self._limits = limits
        self._worker = worker
        self._redactor = redactor
        self._running: dict[Lease, _Running] = {}
        self._stopping = False

    @property
    def count(self) -> int:
        """Runs going on."""
        return len(self._running)

    async def answer(self, lease: Lease, queue: str) -> Ended:
        """Run the job a doorbell rang for, settle it, and go on with what is due next in the queue.

        For `RunLimits.spell` each run begins in the round trip that ends the one before, and a
        doorbell is rung when none is unanswered, since others may be free.  A void one is answered
        in the same way: what it rang for is over, and the queue may have more.

        Returns:
            How the doorbell's own job ended.

        Raises:
            RedisError: The ledger could not be reached to begin, or to settle within a lease; the
                job is taken back by the reaper then.
        """
        if self._stopping:
            await self._ledger.give_back([lease])
            return Ended(Verdict.STALE)
        until = monotonic() + self._limits.spell
        run = await self._insist(lambda: self._ledger.begin(lease, worker=self._worker))
        if run is None:
            # What follows would wait for the sweep otherwise: sixty doorbells of a tenant that has
            # just been parked would leave the queue empty and everyone waiting.
            ended, following = Ended(Verdict.STALE), await self._next(queue)
        else:
            ended, following = await self._run(run, until)
        await self._go_on(following, until)
        return ended

    async def keep_alive(self) -> None:
        """Renew the leases of what runs, for ever; a run that lost its right to go on is cancelled."""
        period = min(self._limits.lease / 3, _WATCH_SECONDS)
        while True:
            await asyncio.sleep(period)
            if self._running:
                await self._renew()

    def stop(self, grace: float) -> None:
        """Begin no more runs; those that go on are cancelled back to waiting after `grace` seconds."""
        self._stopping = True
        asyncio.get_running_loop().call_later(grace, self._cancel_all)

    async def idle(self) -> None:
        """Return when nothing runs."""
        while self._running:
            await asyncio.wait([running.task for running in self._running.values()])
            await asyncio.sleep(_IDLE_POLL)  # each is settled after its task

    def _cancel_all(self) -> None:
        for running in self._running.values():
            running.cancel(_Why.SHUTDOWN)

    # -- one run

    async def _go_on(self, following: _Next, until: float) -> None:
        rings: list[asyncio.Task[None]] = []
        try:
            while True:
                if following.claimed is not None and following.claimed.doorbells:
                    rings.append(asyncio.create_task(self._ring(following.claimed)))
                if following.run is None:
                    return
                _, following = await self._run(following.run, until)
        finally:
            await asyncio.gather(*rings)

    async def _run(self, run: Run, until: float) -> tuple[Ended, _Next]:
        self._rows.began(run.lease.task_id, TASK_BY_TYPE[run.type], run.scope)
        started = monotonic()
        running = _Running(asyncio.create_task(self._contained(run)), started)
        self._running[run.lease] = running
        try:
            result = await self._result(run, running)
            ended, following = await self._settle(run, result, started, until)
        finally:
            del self._running[run.lease]
        self._show(run, ended, monotonic() - started)
        return ended, following

    async def _contained(self, run: Run) -> Success | Failure:
        try:
            return await self._execute(run)
        except (SystemExit, KeyboardInterrupt) as error:
            # Out of a task they end the loop, and with it every run of the process, without a word.
            raise EngineError(f"the engine raised {type(error).__name__}") from error

    async def _result(self, run: Run, running: _Running) -> Success | Failure | None:
        """What the run came to; None when it has lost the right to say so."""
        if self._stopping:
            running.cancel(_Why.SHUTDOWN)
        done, _ = await asyncio.wait({running.task}, timeout=self._limits.job_timeout)
        if not done:
            running.task.cancel()
            done, _ = await asyncio.wait({running.task}, timeout=_UNWIND_SECONDS)
            if not done:
                log.error("run_left_behind", extra={"task_id": run.lease.task_id})
            return Failure(
                FailureKind.ATTEMPT,
                JobError("JobTimeout", f"the run took longer than {self._limits.job_timeout:g} s"),
            )
        if running.why is not None:
            return _cancelled(running.why)
        if running.task.cancelled():
            return Failure(FailureKind.ATTEMPT, JobError("CancelledError", "the engine cancelled the run"))
        error = running.task.exception()
        return running.task.result() if error is None else failure_of(error, self._redactor)

    async def _settle(
        self, run: Run, result: Success | Failure | None, started: float, until: float
    ) -> tuple[Ended, _Next]:
        calls, following = self._ledger.calls, _Next()
        match result:
            case Success():
                settled, following = await self._end(run, calls.settle(run.lease, result), started, until)
                if settled is not None:
                    return Ended(Verdict.SERVED, _result_json(run, result)), following
            case Failure():
                failed, following = await self._end(run, calls.fail(run.lease, result), started, until)
                if failed is not None:
                    verdict = Verdict.DEAD if failed.state is JobState.DEAD else Verdict.AGAIN
                    return Ended(verdict, why=f"{result.error.kind}: {result.error.message}"), following
            case None:
                pass
        return await self._overruled(run), following

    async def _end(self, run: Run, end: Call[T], started: float, until: float) -> tuple[T, _Next]:
        ledger = self._ledger
        # A worker that stops would ring for work it will not be there to do.
        if self._stopping:
            return await self._insist(lambda: ledger.run(end)), _Next()
        now = monotonic()
        if now >= until:
            # A long run's end may be the only one for a while; after short ones, this doorbell's place
            # is all there is to fill.
            claim = ledger.calls.claim(run.queue, None if now - started >= self._limits.spell else 1)
            ended, claimed = await self._insist(lambda: ledger.both(end, claim))
            return ended, _Next(claimed=claimed)
        take = ledger.calls.claim_and_begin(run.queue, worker=self._worker)
        ended, (following, claimed) = await self._insist(lambda: ledger.both(end, take))
        return ended, _Next(following, claimed)

    async def _overruled(self, run: Run) -> Ended:
        """How a run ended whose token was void: it was dropped, or somebody else has the job."""
        status = await self._insist(lambda: self._ledger.status(run.lease.key))
        log.warning("run_overruled", extra={"task_id": run.lease.task_id, "state": status.state.value})
        if status.state is JobState.CANCELLED:
            return Ended(Verdict.CANCELLED)
        return Ended(Verdict.AGAIN, why="LeaseLost: the run fell silent, and the job was taken back")

    def _show(self, run: Run, ended: Ended, seconds: float) -> None:
        task_id = run.lease.task_id
        log.info(
            "run_ended",
            extra={"task_id": task_id, "verdict": ended.verdict.value, "seconds": round(seconds, 3)},
        )
        match ended.verdict:
            case Verdict.SERVED:
                self._rows.succeeded(task_id, ended.result, seconds)
            case Verdict.AGAIN:
                self._rows.retried(task_id, ended.why)
            case Verdict.DEAD:
                self._rows.failed(task_id, ended.why)
            case Verdict.CANCELLED:
                self._rows.revoked(task_id)
            case Verdict.STALE:
                pass

    # -- what is next

    async def _next(self, queue: str) -> _Next:
        # The sweep does it too: a ledger that is away is no reason to fail.
        with contextlib.suppress(RedisError):
            return _Next(*await self._ledger.claim_and_begin(queue, worker=self._worker))
        return _Next()

    async def _ring(self, claimed: Claimed) -> None:
        unrung = await asyncio.to_thread(self._bell.ring, claimed.doorbells) if claimed.doorbells else []
        if unrung:
            with contextlib.suppress(RedisError):
                await self._ledger.give_back(unrung)

    # -- the lease

    async def _renew(self) -> None:
        leases = list(self._running)
        asked_at = monotonic()
        try:
            kept = await self._ledger.renew(leases)
        except (RedisError, OSError) as error:
            log.warning("renewal_failed", extra={"runs": len(leases), "error": type(error).__name__})
            self._cancel_silent()
            return
        for lease, is_ours in zip(leases, kept, strict=True):
            if (running := self._running.get(lease)) is None:
                continue
            if is_ours:
                running.renewed_at = asked_at
            else:
                running.cancel(_Why.VOID)

    def _cancel_silent(self) -> None:
        now = monotonic()
        for running in self._running.values():
            if now - running.renewed_at > self._limits.lease:
                running.cancel(_Why.SILENT)

    async def _insist(self, call: Callable[[], Awaitable[T]]) -> T:
        """Ask the ledger until it answers, for a whole lease."""
        deadline = monotonic() + self._limits.lease
        pauses = iter(_LEDGER_PAUSES)
        pause = 0.0
        while True:
            try:
                return await call()
            except (RedisError, OSError) as error:
                pause = next(pauses, pause)
                if monotonic() + pause > deadline:
                    raise
                log.warning("ledger_unreachable", extra={"error": type(error).__name__})
                await asyncio.sleep(pause)


def _cancelled(why: _Why) -> Failure | None:
    if why is _Why.SHUTDOWN:
        return Failure(FailureKind.SHUTDOWN, JobError("WorkerStopping", "the worker stops"))
    return None


def _result_json(run: Run, success: Success) -> str:
    counts: dict[str, Any] = {"built": success.built, "scopes": success.scopes, "stored": success.stored}
    known = {name: count for name, count in counts.items() if count is not None}
    result = {"job": run.type, "outcome": success.outcome.value, **known}
    if success.follow_ups:
        result["follow_ups"] = len(success.follow_ups)
    return json.dumps(result)
