"""CortexDB as a memory engine: one class for a server of one's own and for the hosted back-end."""

from collections.abc import Mapping, Sequence
from typing import Self

import httpx

from tinymemory.engine import EngineDescriptor, EngineHealth, Item, MemoryEngine, WaitFor, ensure_batch
from tinymemory.engines.cortex.beliefs import belief_hits, merged_beliefs, most_confident
from tinymemory.engines.cortex.chunks import CHUNK_TARGET
from tinymemory.engines.cortex.claims import Claims
from tinymemory.engines.cortex.credential import BearerSource, Credential
from tinymemory.engines.cortex.endpoint import Endpoint
from tinymemory.engines.cortex.failures import DASH
from tinymemory.engines.cortex.forgetting import Forgetting
from tinymemory.engines.cortex.hints import HintGate
from tinymemory.engines.cortex.listing import Listing
from tinymemory.engines.cortex.log import Log
from tinymemory.engines.cortex.pause import Pause
from tinymemory.engines.cortex.places import Places
from tinymemory.engines.cortex.pool import Pool
from tinymemory.engines.cortex.ranking import Ranking
from tinymemory.engines.cortex.reader import Reader
from tinymemory.engines.cortex.scope import Scope
from tinymemory.engines.cortex.storing import Store
from tinymemory.engines.cortex.surface import DIRECT, HOSTED, Surface
from tinymemory.engines.cortex.timing import Timing
from tinymemory.engines.cortex.together import each
from tinymemory.engines.cortex.transport import Transport
from tinymemory.engines.cortex.waiting import Waiter
from tinymemory.engines.cortex.writer import Writer
from tinymemory.errors import TinyMemoryError, UnavailableError
from tinymemory.items import StoreReceipt
from tinymemory.query import (
    BeliefsRequest,
    ConsolidateReceipt,
    ConsolidateRequest,
    ConsolidateStatus,
    ExplorePage,
    ExploreRequest,
    FetchPage,
    FetchRequest,
    ForgetReport,
    ForgetTarget,
    GetRequest,
    Hit,
    ListPage,
    ListRequest,
    RecallAnswer,
    RecallRequest,
)
from tinymemory.text import is_blank


class CortexEngine(MemoryEngine):
    """Memory in CortexDB's event log.

    Safe to use from many tasks at once.  Its items are those of the other libraries that write to
    the same log: ids, labels and keys are equal to the byte.
    """

    def __init__(self, transport: Transport, gate: HintGate, claims: Claims, chunk_target: int) -> None:
        """Put the parts together; hosts call `direct` or `tinyhumans`."""
        self._transport = transport
        self._gate = gate
        self._claims = claims
        self._chunk_target = chunk_target
        self._log = log = Log(transport, claims)
        self._places = places = Places(log)
        reader = Reader(log)
        waiter = Waiter(log, transport.timing)
        writer = Writer(log, waiter, transport.timing)
        self._store = Store(log, reader, writer, waiter, chunk_target)
        self._listing = Listing(log, places, reader)
        self._ranking = Ranking(log, places, reader, gate)
        self._forgetting = Forgetting(places, reader, writer)

    @classmethod
    def direct(
        cls,
        endpoint: str,
        credential: str | BearerSource,
        *,
        timing: Timing | None = None,
        chunk_target: int = CHUNK_TARGET,
        http: httpx.AsyncBaseTransport | None = None,
    ) -> Self:
        """An engine over a CortexDB server.

        Args:
            endpoint: The server's URL; https, unless it is this machine.
            credential: An API key, or a function, sync or async, asked for a bearer on each attempt.
            timing: Gaps, budgets and deadlines, for tests mostly.
            chunk_target: Bytes of JSON a piece of a long document is filled up to.  Libraries that
                share a log must agree on it.
            http: What carries the requests in place of the network, for tests.

        Raises:
            ConfigError: The endpoint is unsafe or no URL, or the key is blank.
        """
        return cls._over(DIRECT, endpoint, credential, timing, chunk_target, http)

    @classmethod
    def tinyhumans(
        cls,
        endpoint: str,
        bearer_source: str | BearerSource,
        *,
        timing: Timing | None = None,
        chunk_target: int = CHUNK_TARGET,
        http: httpx.AsyncBaseTransport | None = None,
    ) -> Self:
        """An engine over the hosted back-end.

        Args:
            endpoint: The back-end's URL; https, unless it is this machine.
            bearer_source: A function, sync or async, asked for a session token or key on each
                attempt; or a key that does not change.
            timing: As in `direct`.
            chunk_target: As in `direct`.
            http: As in `direct`.

        Raises:
            ConfigError: The endpoint is unsafe or no URL, or the key is blank.
        """
        return cls._over(HOSTED, endpoint, bearer_source, timing, chunk_target, http)

    @classmethod
    def _over(
        cls,
        surface: Surface,
        endpoint: str,
        credential: str | BearerSource,
        timing: Timing | None,
        chunk_target: int,
        http: httpx.AsyncBaseTransport | None,
    ) -> Self:
        at = Endpoint.parse(endpoint)
        timing = timing or Timing()
        transport = Transport(
            surface=surface,
            endpoint=at,
            credential=Credential(credential),
            timing=timing,
            pool=Pool(at, timing, http),
            pause=Pause(timing),
        )
        return cls(transport, HintGate(), Claims(), chunk_target)

    def with_default_headers(self, headers: Mapping[str, str]) -> Self:
        """An engine that sends these headers on every request, in place of any set before.

        It shares connections with this one: closing either closes both.

        Raises:
            ConfigError: A header cannot be sent, or is the engine's own to set.
        """
        return type(self)(self._transport.with_headers(headers), self._gate, self._claims, self._chunk_target)

    @property
    def descriptor(self) -> EngineDescriptor:
        """What this wire is and can do."""
        return self._transport.surface.descriptor

    async def health(self) -> EngineHealth:
        """How the server is, asked once; a reason withholds the server's own text."""
        try:
            await self._log.health()
        except UnavailableError as error:
            return EngineHealth.degraded(_reason(error))
        except TinyMemoryError as error:
            return EngineHealth.down(_reason(error))
        return EngineHealth.ok()

    async def recall(self, request: RecallRequest) -> RecallAnswer:
        """Answer a question from the scope that knows most of it, citing all that were asked."""
        request.ensure_valid()
        return await self._ranking.recall(request)

    async def fetch(self, request: FetchRequest) -> FetchPage:
        """Rank what is stored against a query, scope by scope and interleaved."""
        request.ensure_valid()
        self.descriptor.ensure_mode(request.mode)
        return await self._ranking.fetch(request)

    async def store(self, item: Item) -> StoreReceipt:
        """Store an item and wait until it is listed, and as a rule until it is ranked."""
        return await self.store_with(item)

    async def store_with(self, item: Item, wait: WaitFor = WaitFor.VISIBLE) -> StoreReceipt:
        """Store an item, going as far as `wait` asks.

        A one-turn conversation that need only be accepted costs one request on the direct wire.
        """
        item.validate_storable()
        [receipt] = await self._store.store([item], WaitFor(wait))
        return receipt

    async def store_many(self, items: Sequence[Item]) -> "list[StoreReceipt]":
        """Store 1 to 100 items, on the direct wire in a few bulks.

        Raises:
            InvalidRequestError: One cannot be stored; nothing has been then.
            TinyMemoryError: Some may be stored; storing the same batch again writes the rest.
        """
        ensure_batch(items)
        return await self._store.store(items, WaitFor.VISIBLE)

    async def forget(self, target: ForgetTarget) -> ForgetReport:
        """Remove items, with all their turns and pieces and the beliefs built from them.

        Ids are not confined to any reach: a confined caller reads with `get` first.
        """
        target.ensure_valid()
        if target.wanted_ids is not None:
            return ForgetReport(forgotten=await self._forgetting.ids(target.wanted_ids))
        assert target.wanted_filter is not None
        return ForgetReport(forgotten=await self._forgetting.filter(target.wanted_filter))

    async def list(self, request: ListRequest) -> ListPage:
        """Page through what is stored: by scope, and newest first within one."""
        request.ensure_valid()
        return await self._listing.list(request)

    async def get(self, request: GetRequest) -> "list[Hit]":
        """Read items by id; a document lacking a piece is left out."""
        request.ensure_valid()
        return await self._listing.get(request)

    async def explore(self, request: ExploreRequest) -> ExplorePage:
        """Count what is stored by a facet, without reading whole items."""
        request.ensure_valid()
        return await self._listing.explore(request)

    async def consolidate(self, request: ConsolidateRequest) -> ConsolidateReceipt:
        """Build beliefs, scope by scope; the hosted back-end does so on a schedule of its own.

        CortexDB builds from facts that it extracts minutes after a write: a build straight after
        one builds nothing.
        """
        request.ensure_valid()
        if self._log.surface.build is None:
            return ConsolidateReceipt(status=ConsolidateStatus.SCHEDULED)
        builds = [
            await self._log.build(scope) for scope in await self._places.held(request.reach, request.kinds)
        ]
        jobs = [build.job for build in builds if build.job is not None]
        counts = [build.built for build in builds if build.built is not None]
        is_done = not jobs and len(counts) == len(builds)
        return ConsolidateReceipt(
            status=ConsolidateStatus.COMPLETED if is_done else ConsolidateStatus.STARTED,
            jobs=jobs,
            scopes=len(builds),
            built=sum(counts) if is_done else None,
        )

    async def beliefs(self, request: BeliefsRequest) -> "list[Hit]":
        """Read beliefs: ranked with a query, and without one the most confident first.

        The hosted back-end lists none: there, without a query, the answer is empty.
        """
        request.ensure_valid()
        query = None if request.query is None or is_blank(request.query) else request.query
        if query is None and self._log.surface.beliefs is None:
            return []
        # Of every kind: a build writes its beliefs into the scope it read.
        scopes = await self._places.held(request.reach)
        if query is not None:
            lists = await self._ranking.beliefs(scopes, query, request.limit, request.reach)
            return merged_beliefs(lists, request.limit)

        async def listed(scope: Scope) -> "list[Hit]":
            return belief_hits(await self._log.beliefs(scope, request.limit), request.reach)

        return most_confident(await each(scopes, listed), request.limit)

    async def aclose(self) -> None:
        """Close the connections, of this engine and of all that share them."""
        await self._transport.pool.aclose()

    def __repr__(self) -> str:
        return f"CortexEngine(id={self.descriptor.id!r}, origin={self._transport.endpoint.origin!r})"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("an engine cannot be pickled: build it in the process that uses it")


def _reason(error: TinyMemoryError) -> str:
    said, dash, _ = str(error).partition(DASH)
    return f"{said} (detail withheld)" if dash else said
