"""Every transition as a call: its arguments in the order its script documents, its reply as values."""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, TypeVar

from workers.ledger.jobs import (
    Claimed,
    Coverage,
    Doorbell,
    Enqueued,
    EnqueueState,
    JobKey,
    JobState,
    Lease,
    NewJob,
    Priority,
    Run,
)
from workers.ledger.options import LedgerOptions
from workers.ledger.outcomes import Failed, Failure, Settled, Success
from workers.ledger.scripts import Arg, Call, load
from workers.ledger.views import JobStatus, Party, Probe

T = TypeVar("T")

REAP_LIMIT = 200
UNPARK_LIMIT = 500
_TYPES = {"build": "build_beliefs", "ingest": "ingest_brain"}
_KIND_LETTERS = (("document", "D"), ("conversation", "C"), ("learning", "L"))
_ENQUEUE_STATES = {state.value: state for state in EnqueueState}
_PROFILE_WIDE = "*"


class Transitions:
    """Builds the calls of one ledger; holds its options and no connection."""

    def __init__(self, options: LedgerOptions, *, clock: str = "clock") -> None:
        self.options = options
        self._clock = clock
        self._max_wait = _ms(options.build_max_wait)

    def call(self, name: str, args: Sequence[Arg], parse: Callable[[Any], T]) -> Call[T]:
        """A call of any script: `args` as its header documents ARGV."""
        return Call(load(name, self._clock), (self.options.key_prefix, *args), parse)

    def enqueue(self, jobs: Sequence[NewJob], *, by_host: bool = True) -> Call[list[Enqueued]]:
        """See `Ledger.enqueue`."""
        args: list[Arg] = [self._max_wait, "1" if by_host else "0"]
        for job in jobs:
            args += _job_args(job)
        return self.call("enqueue", args, lambda reply: _enqueued(jobs, reply))

    def claim(self, queue: str, n: int | None = None) -> Call[Claimed]:
        """See `Ledger.claim`."""
        wanted = self.options.max_in_flight if n is None else n
        args = self._claim_args(queue, wanted, self.options.max_in_flight)
        return self.call("claim", (*args, "", 0, 0, 0), lambda reply: _claimed(queue, reply))

    def claim_and_begin(self, queue: str, *, worker: str) -> Call[tuple[Run | None, Claimed]]:
        """See `Ledger.claim_and_begin`."""
        o = self.options
        args = (*self._claim_args(queue, 1, 1), worker, _ms(o.lease), self._max_wait, o.max_in_flight // 2)
        return self.call("claim", args, lambda reply: (_run(reply[2]), _claimed(queue, reply)))

    def unanswered(self, queue: str, seconds: float) -> Call[tuple[Doorbell, ...]]:
        """See `Ledger.unanswered`."""
        return self.call("unanswered", (queue, _ms(seconds)), lambda reply: _doorbells(queue, reply))

    def _claim_args(self, queue: str, wanted: int, not_begun: int) -> tuple[Arg, ...]:
        o = self.options
        return (queue, wanted, not_begun, o.root_concurrency, _ms(o.doorbell_lease), o.history_limit)

    def give_back(self, leases: Sequence[Lease]) -> Call[int]:
        """See `Ledger.give_back`."""
        return self.call("give_back", (self._max_wait, *_lease_args(leases)), int)

    def begin(self, lease: Lease, *, worker: str) -> Call[Run | None]:
        """See `Ledger.begin`."""
        args = (lease.key, lease.token, _ms(self.options.lease), worker, self._max_wait)
        return self.call("begin", args, _run)

    def renew(self, leases: Sequence[Lease]) -> Call[list[bool]]:
        """See `Ledger.renew`."""
        return self.call("renew", (_ms(self.options.lease), *_lease_args(leases)), _flags)

    def settle(self, lease: Lease, success: Success) -> Call[Settled | None]:
        """See `Ledger.settle`."""
        o = self.options
        counts = ["" if n is None else n for n in (success.built, success.scopes, success.stored)]
        args: list[Arg] = [lease.key, lease.token, success.outcome, *counts]
        args += (self._max_wait, o.history_limit, _ms(o.probe_cap))
        follow_ups = [job for job in success.follow_ups if job.key != lease.key]
        for job in follow_ups:
            args += _job_args(job)
        return self.call("settle", args, lambda reply: _settled(follow_ups, reply))

    def fail(self, lease: Lease, failure: Failure) -> Call[Failed | None]:
        """See `Ledger.fail`."""
        o = self.options
        args = (
            *(lease.key, lease.token, failure.kind, failure.error.kind, failure.error.message),
            *(_ms(failure.retry_after or 0.0), random.random(), _ms(o.backoff_base), _ms(o.backoff_cap)),
            *(o.max_attempts, o.breaker_threshold, _ms(o.probe_interval), _ms(o.probe_cap)),
            *(_ms(o.newer_envelope_grace), self._max_wait, o.history_limit, o.dead_limit),
        )
        return self.call("fail", args, _failed)

    def reap(self) -> Call[tuple[int, int, int, bool]]:
        """Expired leases: returned, lost, dead, and whether there may be more."""
        o = self.options
        args = (o.max_losses, self._max_wait, o.history_limit, o.dead_limit, REAP_LIMIT)
        return self.call("reap", args, lambda reply: (*reply[:3], bool(reply[3])))

    def unpark(self, skip: int = 0) -> Call[tuple[int, int]]:
        """Parked jobs no breaker holds: how many were returned, and the `skip` to go on with, or -1."""
        return self.call("unpark", (skip, REAP_LIMIT, UNPARK_LIMIT), lambda reply: (reply[0], reply[1]))

    def open_breaker(self, party: Party, reason: str, *, whole_profile: bool) -> Call[bool]:
        """See `Ledger.open_breaker`."""
        o = self.options
        pauses = (_ms(o.probe_interval), _ms(o.probe_cap))
        args = (party.profile, party.root, "1" if whole_profile else "", reason, *pauses)
        return self.call("open_breaker", args, bool)

    def close_breaker(self, profile: str, root: str | None) -> Call[bool]:
        """The first step of `Ledger.close_breaker`."""
        return self.call("close_breaker", (profile, root or "", _ms(self.options.probe_cap)), bool)

    def probes(self, limit: int) -> Call[list[Probe]]:
        """See `Ledger.probes`."""
        return self.call("probes", (_ms(self.options.probe_cap), limit), _probes)

    def run_now(self, key: str) -> Call[JobState]:
        """See `Ledger.run_now`."""
        return self.call("run_now", (key,), state_of)

    def retry(self, keys: Sequence[str]) -> Call[list[bool]]:
        """See `Ledger.retry`."""
        return self.call("retry", tuple(keys), _flags)

    def drop(self, key: str) -> Call[JobState]:
        """See `Ledger.drop`."""
        return self.call("drop", (key, self.options.history_limit), state_of)

    def status(self, key: str) -> Call[JobStatus]:
        """See `Ledger.status`."""
        return self.call("status", (key,), lambda reply: _statuses(reply)[0])

    def statuses(self, keys: Sequence[str]) -> Call[list[JobStatus]]:
        """The same for several, in order."""
        return self.call("status", tuple(keys), _statuses)


def type_of(key: str) -> str:
    """`build_beliefs` or `ingest_brain`."""
    return _TYPES[key.partition(":")[0]]


def root_of(key: str) -> str:
    """The root in a key."""
    return key.partition(":")[2].rpartition(":")[0]


def instant(ms: int | float | str) -> datetime:
    """An aware UTC instant from milliseconds."""
    return datetime.fromtimestamp(float(ms) / 1000, UTC)


def state_of(name: str) -> JobState:
    """A stored state as callers see it."""
    return JobState.DONE if name == "folded" else JobState(name or JobState.UNKNOWN)


def _ms(seconds: float) -> int:
    # Up, so that a delay is never cut short (I4).
    return math.ceil(seconds * 1000)


def _job_args(job: NewJob) -> tuple[Arg, ...]:
    # A host enqueues the same few builds again and again; an ingest comes once, and may be large.
    return _build_args(job) if job.coverage else _encoded(job)


def _encoded(job: NewJob) -> tuple[Arg, ...]:
    coverage = coverage_text(job.coverage) if job.coverage else ""
    scope = job.scope.replace("\n", " ")
    texts = (job.key, job.queue, job.profile, str(_ms(job.delay)), scope, coverage, job.batch, job.envelope)
    return tuple(text.encode() for text in texts)


_build_args = lru_cache(maxsize=4096)(_encoded)


def coverage_text(coverage: Coverage) -> str:
    """As the scripts read it: `idDCL<node>`, `-` for each flag and kind it lacks."""
    kinds = "".join(
        letter if not coverage.kinds or kind in coverage.kinds else "-" for kind, letter in _KIND_LETTERS
    )
    return f"{'i' if coverage.inherit else '-'}{'d' if coverage.descendants else '-'}{kinds}{coverage.at}"


def _lease_args(leases: Sequence[Lease]) -> list[Arg]:
    return [arg for lease in leases for arg in (lease.key, lease.token)]


def _enqueued(jobs: Sequence[NewJob], reply: list[Any]) -> list[Enqueued]:
    return [
        Enqueued(key=JobKey(job.key), state=_ENQUEUE_STATES[state], due_at=instant(due))
        for job, state, due in zip(jobs, reply[::2], reply[1::2], strict=True)
    ]


def _claimed(queue: str, reply: list[Any]) -> Claimed:
    return Claimed(_doorbells(queue, reply[3:]), folded=reply[0], parked=reply[1])


def _doorbells(queue: str, reply: list[Any]) -> tuple[Doorbell, ...]:
    doorbells: list[Doorbell] = []
    for key, token, priority, profile, scope in rows(reply, 5):
        lease = Lease(JobKey(key), int(token))
        doorbells.append(
            Doorbell(lease, type_of(key), queue, Priority(priority), root_of(key), profile, scope)
        )
    return tuple(doorbells)


def _run(reply: list[Any] | None) -> Run | None:
    if reply is None:
        return None
    key, token, queue, profile, scope, envelope, attempts, losses, merged, due, begun, ends = reply
    return Run(
        lease=Lease(JobKey(key), token),
        type=type_of(key),
        queue=queue,
        root=root_of(key),
        profile=profile,
        scope=scope,
        envelope=envelope,
        attempts=attempts,
        losses=losses,
        merged=merged,
        due_at=instant(due),
        begun_at=instant(begun),
        lease_ends_at=instant(ends),
    )


def _settled(follow_ups: Sequence[NewJob], reply: list[Any] | None) -> Settled | None:
    if reply is None:
        return None
    state = JobState(reply[0])
    due_at = instant(reply[1]) if state is JobState.WAITING else None
    return Settled(state, due_at, tuple(_enqueued(follow_ups, reply[2:])))


def _failed(reply: list[Any] | None) -> Failed | None:
    if reply is None:
        return None
    state = JobState(reply[0])
    return Failed(state, instant(reply[1]) if state is JobState.WAITING else None, opened=bool(reply[2]))


def _probes(reply: list[Any]) -> list[Probe]:
    found: list[Probe] = []
    for id_, via, reason in rows(reply, 3):
        root, _, profile = id_.partition("|")
        found.append(Probe(profile, None if root == _PROFILE_WIDE else root, via, reason))
    return found


def _statuses(reply: list[Any]) -> list[JobStatus]:
    found: list[JobStatus] = []
    for key, state, last, served, token in rows(reply, 5):
        found.append(
            JobStatus(
                key=JobKey(key),
                state=state_of(state),
                last_enqueued_at=instant(last) if last else None,
                served_through=instant(served) if served else None,
                run=f"{key}:{token}" if token else None,
            )
        )
    return found


def _flags(reply: list[Any]) -> list[bool]:
    return [bool(one) for one in reply]


def rows(flat: list[Any], width: int) -> Iterator[tuple[Any, ...]]:
    """A flat reply as rows."""
    return zip(*(flat[i::width] for i in range(width)), strict=True)
