"""The ledger: what is owed, kept in Redis, each transition one atomic script."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from redis import Redis as SyncRedis
from redis.asyncio import Redis
from redis.exceptions import NoScriptError

from tinymemory.errors import ConfigError
from workers.ledger import keeping, readings
from workers.ledger.jobs import Claimed, Doorbell, Enqueued, JobState, Lease, NewJob, Run
from workers.ledger.options import LedgerOptions
from workers.ledger.outcomes import Failed, Failure, Reaped, Settled, Success
from workers.ledger.readings import Plan
from workers.ledger.scripts import Call
from workers.ledger.transitions import Transitions
from workers.ledger.views import (
    Active,
    BatchProgress,
    BreakerView,
    HistoryView,
    JobDetail,
    JobStatus,
    JobView,
    LaneStats,
    Party,
    Probe,
    RootStats,
    StatsView,
)

T = TypeVar("T")
U = TypeVar("U")


class Ledger:
    """Every transition and every reading, for code with an event loop.

    The client must decode responses, and its timeouts bound every call; redis-py's errors go through
    unchanged.  A stale token is an answer (`None`, `False`), not an error.  `calls` builds the same
    calls as values, for `run`, `both` and `SyncLedger.run`.

    Raises:
        ConfigError: The client does not decode responses.
    """

    def __init__(
        self, client: Redis, options: LedgerOptions | None = None, *, calls: Transitions | None = None
    ) -> None:
        _ensure_decoding(client)
        self.client = client
        self.calls = calls or Transitions(options or LedgerOptions())
        self._used: set[str] = set()
        self._execute: Callable[..., Awaitable[Any]] = client.execute_command  # pyright: ignore[reportUnknownMemberType]  # redis-py leaves **options untyped

    # -- what hosts do

    async def enqueue(self, jobs: Sequence[NewJob], *, by_host: bool = True) -> list[Enqueued]:
        """Accept jobs, merging each with what is owed under its key; all of them or, on an error, none.

        `by_host` marks their roots as active, which the nightly build goes by; the beat's own
        enqueues (full builds, reconcile) are not.
        """
        return await self.run(self.calls.enqueue(jobs, by_host=by_host))

    async def status(self, key: str) -> JobStatus:
        """Where a job is, followed through folds."""
        return await self.run(self.calls.status(key))

    async def progress(self, batch: str) -> BatchProgress | None:
        """Where the parts of an ingest are; None for a batch unknown or a week old."""
        return await self.follow(readings.progress(self.calls, batch))

    # -- what publishes and runs jobs

    async def queues(self) -> list[str]:
        """Every queue a job was ever enqueued for, sorted."""
        return await self.follow(readings.queues(self.calls))

    async def claim(self, queue: str, n: int | None = None) -> Claimed:
        """Take up to `n` due jobs of a queue, root by root, to publish a doorbell for each.

        Never more than keeps the queue within `max_in_flight`, and as many as that when `n` is
        None; an operator's runs first.  What cannot be published is given back.
        """
        return await self.run(self.calls.claim(queue, n))

    async def claim_and_begin(self, queue: str, *, worker: str) -> tuple[Run | None, Claimed]:
        """Begin the next due job of a queue at once, without a doorbell; None when there is none.

        One more is claimed, to be published, when no doorbell of the queue is unanswered: somebody
        else may be free.  A claimed job that others have passed by comes first, and the longest
        claimed one last, when nothing is due; its own doorbell finds it begun.
        """
        return await self.run(self.calls.claim_and_begin(queue, worker=worker))

    async def unanswered(self, queue: str, seconds: float) -> tuple[Doorbell, ...]:
        """Doorbells of jobs claimed for so long and not begun; they may be rung again at any time."""
        return await self.run(self.calls.unanswered(queue, seconds))

    async def give_back(self, leases: Sequence[Lease]) -> int:
        """Return claimed jobs whose doorbell could not be published; how many were still ours."""
        return await self.run(self.calls.give_back(leases))

    async def begin(self, lease: Lease, *, worker: str) -> Run | None:
        """Start the run a doorbell rang for.

        None: the token is stale, the doorbell rang before, or a breaker opened since the claim and
        the job is parked.  The task then goes home quietly.
        """
        return await self.run(self.calls.begin(lease, worker=worker))

    async def renew(self, leases: Sequence[Lease]) -> list[bool]:
        """Prolong runs by a whole lease each, in order; False is a run that has lost its right to go on."""
        return await self.run(self.calls.renew(leases))

    async def settle(self, lease: Lease, success: Success) -> Settled | None:
        """End a run that succeeded, with its follow-ups; None, and nothing kept, when the token is stale."""
        return await self.run(self.calls.settle(lease, success))

    async def fail(self, lease: Lease, failure: Failure) -> Failed | None:
        """End a run that failed; None, and nothing kept, when the token is stale."""
        return await self.run(self.calls.fail(lease, failure))

    # -- what the beat does

    async def reap(self) -> Reaped:
        """Take back expired leases, and unpark what no breaker holds any more; bounded, see `more`."""
        return await self.follow(keeping.reap(self.calls))

    async def breakers(self) -> list[BreakerView]:
        """The open breakers, the next to be probed first."""
        return await self.run(readings.breakers(self.calls))

    async def probes(self, limit: int = 20) -> list[Probe]:
        """Breakers whose probe is due; each one's next probe moves away, so that two beats ask once."""
        return await self.run(self.calls.probes(limit))

    async def open_breaker(self, party: Party, reason: str, *, whole_profile: bool = False) -> bool:
        """Park a party, or its whole profile; False when it is open already."""
        return await self.run(self.calls.open_breaker(party, reason, whole_profile=whole_profile))

    async def close_breaker(self, profile: str, root: str | None) -> int:
        """Close a breaker and return its parked jobs to waiting; how many those were.

        Until a run succeeds there, each root gets one run at a time, and a failure opens it again
        with a longer pause.
        """
        return await self.follow(keeping.close_breaker(self.calls, profile, root))

    async def active(self, limit: int = 100) -> list[Active]:
        """Parties with writes no nightly build covers yet, the longest active first."""
        return await self.run(keeping.active(self.calls, limit))

    async def full_build_enqueued(self, active: Active) -> None:
        """The nightly build of that party is enqueued; writes since `active` was read keep it active."""
        await self.run(keeping.rest(self.calls, active))

    async def to_reconcile(self, limit: int = 100, *, every: float = 0.0) -> list[Party]:
        """Known parties whose turn it is, and now was; none of those asked for within `every` seconds."""
        return await self.run(keeping.to_reconcile(self.calls, limit, round(every * 1000)))

    async def prune(self, *, idle: float = 90 * 86_400.0) -> int:
        """Forget parties that owe nothing and had no enqueue for `idle` seconds; how many."""
        return await self.follow(keeping.prune(self.calls, round(idle * 1000)))

    # -- what operators do and see

    async def run_now(self, key: str) -> JobState:
        """Let a waiting, parked or dead job run next, ignoring its delay and an open breaker.

        Returns the state it was found in: `queued` and `running` ones run already, and for one that
        is over or unknown nothing is done.
        """
        return await self.run(self.calls.run_now(key))

    async def retry(self, keys: Sequence[str]) -> list[bool]:
        """Give dead jobs a new series of attempts, due now; False for what is not dead."""
        return await self.run(self.calls.retry(keys))

    async def drop(self, key: str) -> JobState:
        """Cancel a job wherever it is: a run's token is void at once, the record stays `cancelled`.

        Returns the state it was found in; one that is over (except dead) or unknown stays as it is.
        """
        return await self.run(self.calls.drop(key))

    async def erase(self, root: str) -> int:
        """Remove every trace of a root: jobs, payloads, history, dead letters, breakers; how many records."""
        return await self.follow(keeping.erase(self.calls, root))

    async def jobs(
        self, *, root: str | None = None, limit: int = 100, states: Sequence[JobState] = ()
    ) -> list[JobView]:
        """Jobs by due time; of every state but the finished ones unless told."""
        return await self.follow(readings.jobs(self.calls, root=root, limit=limit, states=states))

    async def show(self, key: str) -> JobDetail | None:
        """One job, finished or not; None when unknown."""
        return await self.follow(readings.show(self.calls, key))

    async def history(
        self, *, root: str | None = None, key: str | None = None, limit: int = 100
    ) -> list[HistoryView]:
        """Runs, the newest first."""
        return await self.follow(readings.history(self.calls, root=root, key=key, limit=limit))

    async def dead(self, *, root: str | None = None, limit: int = 100) -> list[JobView]:
        """Dead letters, the newest first."""
        return await self.follow(readings.dead(self.calls, root=root, limit=limit))

    async def stats(self) -> StatsView:
        """The whole ledger in one object."""
        return await self.follow(readings.stats(self.calls))

    async def lanes(self) -> list[LaneStats]:
        """The same by queue and profile."""
        return await self.follow(readings.lanes(self.calls))

    async def stats_by_root(self, limit: int = 100) -> list[RootStats]:
        """What each root is owed, the most owed first."""
        return await self.follow(readings.stats_by_root(self.calls, limit))

    # -- how calls are sent

    async def run(self, call: Call[T]) -> T:
        """Send one call; a Redis that forgot the script is given it again."""
        script = call.script
        try:
            reply = await self._execute("EVALSHA", script.sha, 1, *call.args)
        except NoScriptError:
            reply = await self._execute("EVAL", script.text, 1, *call.args)
        self._used.add(script.sha)
        return call.parse(reply)

    async def follow(self, plan: Plan[T]) -> T:
        """Send a plan's calls one after the other."""
        try:
            call = next(plan)
            while True:
                call = plan.send(await self.run(call))
        except StopIteration as end:
            return end.value

    async def both(self, first: Call[T], second: Call[U]) -> tuple[T, U]:
        """Send two calls in that order; in one round trip, once both scripts were used before."""
        if not self._used.issuperset((first.script.sha, second.script.sha)):
            # A script Redis does not know yet is sent again, after what came behind it.
            return await self.run(first), await self.run(second)
        pipeline = self.client.pipeline(transaction=False)
        for call in (first, second):
            pipeline.execute_command("EVALSHA", call.script.sha, 1, *call.args)  # pyright: ignore[reportUnknownMemberType]  # as above
        replies: list[Any] = await pipeline.execute(raise_on_error=False)
        return await self._read(first, replies[0]), await self._read(second, replies[1])

    async def _read(self, call: Call[T], reply: Any) -> T:
        if isinstance(reply, NoScriptError):
            return await self.run(call)
        if isinstance(reply, Exception):
            raise reply
        return call.parse(reply)


class SyncLedger:
    """What a host without a loop needs, and `run` for every other call."""

    def __init__(
        self, client: SyncRedis, options: LedgerOptions | None = None, *, calls: Transitions | None = None
    ) -> None:
        _ensure_decoding(client)
        self.client = client
        self.calls = calls or Transitions(options or LedgerOptions())
        self._execute: Callable[..., Any] = client.execute_command  # pyright: ignore[reportUnknownMemberType]  # redis-py leaves **options untyped

    def enqueue(self, jobs: Sequence[NewJob], *, by_host: bool = True) -> list[Enqueued]:
        """As `Ledger.enqueue`."""
        return self.run(self.calls.enqueue(jobs, by_host=by_host))

    def claim(self, queue: str, n: int | None = None) -> Claimed:
        """As `Ledger.claim`."""
        return self.run(self.calls.claim(queue, n))

    def give_back(self, leases: Sequence[Lease]) -> int:
        """As `Ledger.give_back`."""
        return self.run(self.calls.give_back(leases))

    def status(self, key: str) -> JobStatus:
        """As `Ledger.status`."""
        return self.run(self.calls.status(key))

    def progress(self, batch: str) -> BatchProgress | None:
        """As `Ledger.progress`."""
        return self.follow(readings.progress(self.calls, batch))

    def breakers(self) -> list[BreakerView]:
        """As `Ledger.breakers`."""
        return self.run(readings.breakers(self.calls))

    def lanes(self) -> list[LaneStats]:
        """As `Ledger.lanes`."""
        return self.follow(readings.lanes(self.calls))

    def run(self, call: Call[T]) -> T:
        """Send one call; a Redis that forgot the script is given it again."""
        script = call.script
        try:
            reply = self._execute("EVALSHA", script.sha, 1, *call.args)
        except NoScriptError:
            reply = self._execute("EVAL", script.text, 1, *call.args)
        return call.parse(reply)

    def follow(self, plan: Plan[T]) -> T:
        """Send a plan's calls one after the other."""
        try:
            call = next(plan)
            while True:
                call = plan.send(self.run(call))
        except StopIteration as end:
            return end.value


def _ensure_decoding(client: Redis | SyncRedis) -> None:
    if not client.get_encoder().decode_responses:
        raise ConfigError("the ledger's Redis client must be made with `decode_responses=True`")
