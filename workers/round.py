"""One round of what keeps the jobs moving: reap, probe, reconcile, claim and ring.

The beat asks for it, `tinymemory sweep` does it alone, and any number of them at once are safe:
every step is one atomic transition of the ledger.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field
from redis.exceptions import RedisError

from tinymemory.engine import HealthState
from tinymemory.jobs import BuildBeliefs
from tinymemory.namespace import Namespace, Reach, SegmentKind
from tinymemory.query import ConsolidateRequest
from workers.doorbell import Bell
from workers.engines import EngineCache
from workers.intake import Intake
from workers.ledger import Claimed, Doorbell, JobState, Ledger, NewJob, Party, Probe
from workers.redaction import Redactor
from workers.routing import job_queues
from workers.settings import DEFAULT_PROFILE, WorkerSettings

HEALTH_SECONDS = 10.0
"""How long an engine may take to say how it is."""
_REAP_ROUNDS = 50
_PARTIES = 100
_TOGETHER = 8
"""Engines asked at a time."""
_REBUILT = frozenset({JobState.DONE, JobState.UNKNOWN})
"""What an engine's own word starts again.  What is owed runs anyway, and what is dead or was
cancelled waits for a person: asked for every minute, it would fail every minute."""

T = TypeVar("T")

log = logging.getLogger(__name__)


class SweepReport(BaseModel):
    """What one round did; `tinymemory sweep` prints it as one JSON line."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    claimed: int = 0
    published: int = 0
    """Doorbells rung, those again that nobody answered; what could not be published went back."""
    folded: int = 0
    reaped: int = 0
    """Jobs taken back from whoever fell silent."""
    probed: int = 0
    """Parked engines asked how they are."""
    due_left: int = 0
    """Due, and not claimed: held by a cap, or by a broker that is away."""
    errors: list[str] = Field(default_factory=list[str])
    broker_answers: bool = Field(default=True, exclude=True)


class Round:
    """The steps of a round, and the nightly and daily ones beside it."""

    def __init__(
        self,
        ledger: Ledger,
        bell: Bell,
        engines: EngineCache,
        *,
        settings: WorkerSettings,
        redactor: Redactor,
    ) -> None:
        self._ledger = ledger
        self._bell = bell
        self._engines = engines
        self._settings = settings
        self._redactor = redactor
        self._intake = Intake(settings)

    async def sweep(self) -> SweepReport:
        """Reap, probe, reconcile, claim and ring.  What fails is listed, and the rest goes on.

        Raises:
            RedisError: The ledger does not answer.
        """
        reaped = await self.reap()
        probed, probe_errors = await self._probe()
        errors = [*probe_errors, *await self._reconcile()]
        claimed = published = folded = 0
        broker_answers = True
        for queue in await self._queues():
            waiting = await asyncio.to_thread(self._bell.depth, queue)
            if waiting is None:
                broker_answers = False
                break
            found, doorbells = await self._to_ring(queue, waiting)
            unrung = await asyncio.to_thread(self._bell.ring, doorbells)
            if unrung:
                await self._ledger.give_back(unrung)
                broker_answers = False
            claimed += len(found.doorbells)
            published += len(doorbells) - len(unrung)
            folded += found.folded
        if not broker_answers:
            errors.append("the broker does not answer: what is due stays in the ledger")
        stats = await self._ledger.stats()
        return SweepReport(
            claimed=claimed,
            published=published,
            folded=folded,
            reaped=reaped,
            probed=probed,
            due_left=stats.due,
            errors=errors,
            broker_answers=broker_answers,
        )

    async def reap(self) -> int:
        """Take back what whoever had it has fallen silent about; how many jobs."""
        taken = 0
        for _ in range(_REAP_ROUNDS):
            reaped = await self._ledger.reap()
            taken += reaped.returned + reaped.lost
            if not reaped.more:
                break
        return taken

    async def probe(self) -> int:
        """Ask the parked engines whose turn it is how they are; how many were asked."""
        probed, errors = await self._probe()
        for error in errors:
            log.warning("probe_failed", extra={"error": error})
        return probed

    async def full_build(self) -> int:
        """Enqueue a build of everything for each party with writes since its last; how many."""
        enqueued = 0
        while active := await self._ledger.active(_PARTIES):
            for writer in active:
                everything = Reach.subtree(Namespace.parse(writer.party.root))
                builds = self._builds(writer.party, ConsolidateRequest(reach=everything))
                await self._ledger.enqueue(builds, by_host=False)
                await self._ledger.full_build_enqueued(writer)
            enqueued += len(active)
        return enqueued

    async def prune(self) -> int:
        """Forget parties that have been idle for a long time; how many."""
        return await self._ledger.prune()

    # -- the steps

    async def _to_ring(self, queue: str, waiting: int) -> tuple[Claimed, tuple[Doorbell, ...]]:
        """What is claimed now, and all there is to ring for in a queue in which `waiting` doorbells wait.

        The ledger alone does not know how many: while no worker takes them, doorbells grow stale in the
        broker and their jobs return, to be rung for again.  And where none is left while jobs are claimed
        and not begun, the doorbells were lost, with their broker or with a worker that had just taken
        them; the room that their jobs take up would be missed by everybody's.
        """
        lost: tuple[Doorbell, ...] = ()
        if waiting == 0:
            lost = await self._ledger.unanswered(queue, self._settings.sweep_interval)
        room = max(0, self._settings.max_in_flight - waiting)
        found = await self._ledger.claim(queue, room)
        return found, (*lost, *found.doorbells)

    async def _queues(self) -> list[str]:
        known = await self._ledger.queues()
        return list(dict.fromkeys([*job_queues(self._settings), *known]))

    async def _probe(self) -> tuple[int, list[str]]:
        probes = await self._ledger.probes()
        return len(probes), await self._each(probes, self._ask)

    async def _ask(self, probe: Probe) -> None:
        async with self._engines.engine(Party(probe.via, probe.profile)) as engine:
            health = await asyncio.wait_for(engine.health(), HEALTH_SECONDS)
        log.info("probed", extra={"profile": probe.profile, "root": probe.root, "state": health.state.value})
        if health.state is not HealthState.DOWN:
            await self._ledger.close_breaker(probe.profile, probe.root)

    async def _reconcile(self) -> list[str]:
        parties = await self._ledger.to_reconcile(_PARTIES, every=self._settings.sweep_interval / 2)
        errors = await self._each(parties, self._enqueue_unbuilt)
        return errors + await self._restore()

    async def _restore(self) -> list[str]:
        """After the ledger was lost: enqueue what the engines of all tenants together say is unbuilt.

        A new ledger knows no tenant to ask about.  An engine that keeps all tenants in one place can
        be asked about all; which root each build belongs to follows from the standard layout.  A
        factory makes engines of single tenants, and is not asked.
        """
        mark = f"{self._settings.key_prefix}known"
        if self._settings.engine_factory is not None or await self._ledger.client.exists(mark):
            return []
        profiles = [DEFAULT_PROFILE, *self._settings.profiles]
        errors = await self._each([Party("root", profile) for profile in profiles], self._enqueue_all_unbuilt)
        if not errors:
            await self._ledger.client.set(mark, "1")
        return errors

    async def _enqueue_all_unbuilt(self, everyone: Party) -> None:
        async with self._engines.engine(everyone) as engine:
            owed = await engine.unbuilt(Reach.subtree(Namespace.ROOT))
        for request in owed:
            await self._enqueue_missing(Party(str(layout_root(request.reach.at)), everyone.profile), request)

    async def _enqueue_unbuilt(self, party: Party) -> None:
        async with self._engines.engine(party) as engine:
            owed = await engine.unbuilt(Reach.subtree(Namespace.parse(party.root)))
        for request in owed:
            await self._enqueue_missing(party, request)

    async def _enqueue_missing(self, party: Party, request: ConsolidateRequest) -> None:
        builds = self._builds(party, request)
        # An ingest's own build takes in what lies below its source, and serves this one too.
        wider = self._builds(party, request.model_copy(update={"reach": Reach.subtree(request.reach.at)}))
        states = {(await self._ledger.status(job.key)).state for job in (*builds, *wider)}
        if states <= _REBUILT:
            await self._ledger.enqueue(builds, by_host=False)

    def _builds(self, party: Party, request: ConsolidateRequest) -> list[NewJob]:
        return self._intake.new_jobs(BuildBeliefs(request), root=party.root, profile=party.profile)

    async def _each(self, things: Iterable[T], do: Callable[[T], Awaitable[None]]) -> list[str]:
        """Do it for each, a few at a time; the errors, sanitised."""
        gate = asyncio.Semaphore(_TOGETHER)

        async def one(thing: T) -> str | None:
            async with gate:
                try:
                    await do(thing)
                except RedisError:
                    raise
                except Exception as error:  # one tenant's engine is not the others' round
                    kept = self._redactor.error(error)
                    return f"{thing}: {kept.kind}: {kept.message}"
                return None

        return [error for error in await asyncio.gather(*map(one, things)) if error is not None]


def layout_root(at: Namespace) -> Namespace:
    """The root of the standard layout this lies in: what is above its agent or source, else itself."""
    for depth in range(at.depth - 1, -1, -1):
        if at.segments[depth].kind in (SegmentKind.AGENT, SegmentKind.SOURCE):
            return Namespace(at.segments[:depth])
    return at
