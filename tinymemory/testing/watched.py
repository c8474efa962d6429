"""An engine under observation: it notes what it is asked, and fails or answers as a test wants."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tinymemory.engine import EngineDescriptor, EngineHealth, Item, MemoryEngine, WaitFor
from tinymemory.items import StoreReceipt
from tinymemory.namespace import Reach
from tinymemory.query import (
    BeliefsRequest,
    ConsolidateReceipt,
    ConsolidateRequest,
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

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EngineCall:
    """One call an engine got."""

    method: str
    request: Any
    """The first argument; None when there is none."""


@dataclass(slots=True)
class Watch:
    """What was asked of a `WatchedEngine`, and what it does instead of what its engine would."""

    calls: list[EngineCall] = field(default_factory=list[EngineCall])
    failures: dict[str, BaseException] = field(default_factory=dict[str, BaseException])
    """Method name → what it raises."""
    answers: dict[str, Callable[[Any], Any]] = field(default_factory=dict[str, Callable[[Any], Any]])
    """Method name → what answers the request; a coroutine function is awaited."""

    def requests(self, method: str) -> list[Any]:
        """The requests one method got, in order."""
        return [call.request for call in self.calls if call.method == method]


class WatchedEngine(MemoryEngine):
    """Hands every call on to another engine, once `watch` has had its say.

    For a host's own tests: what does my agent do when memory is down, slow or wrong?
    """

    def __init__(self, inner: MemoryEngine, *, descriptor: EngineDescriptor | None = None) -> None:
        self.inner = inner
        self.watch = Watch()
        self._descriptor = descriptor

    @property
    def descriptor(self) -> EngineDescriptor:
        """The one given, else the inner engine's."""
        return self._descriptor or self.inner.descriptor

    async def health(self) -> EngineHealth:
        """See `MemoryEngine`."""
        return await self._call("health", None, lambda _: self.inner.health())

    async def recall(self, request: RecallRequest) -> RecallAnswer:
        """See `MemoryEngine`."""
        return await self._call("recall", request, self.inner.recall)

    async def fetch(self, request: FetchRequest) -> FetchPage:
        """See `MemoryEngine`."""
        return await self._call("fetch", request, self.inner.fetch)

    async def store(self, item: Item) -> StoreReceipt:
        """See `MemoryEngine`."""
        return await self._call("store", item, self.inner.store)

    async def store_with(self, item: Item, wait: WaitFor = WaitFor.VISIBLE) -> StoreReceipt:
        """See `MemoryEngine`."""
        return await self._call("store_with", item, lambda item: self.inner.store_with(item, wait))

    async def store_many(self, items: Sequence[Item]) -> "list[StoreReceipt]":
        """See `MemoryEngine`."""
        return await self._call("store_many", items, self.inner.store_many)

    async def forget(self, target: ForgetTarget) -> ForgetReport:
        """See `MemoryEngine`."""
        return await self._call("forget", target, self.inner.forget)

    async def list(self, request: ListRequest) -> ListPage:
        """See `MemoryEngine`."""
        return await self._call("list", request, self.inner.list)

    async def get(self, request: GetRequest) -> "list[Hit]":
        """See `MemoryEngine`."""
        return await self._call("get", request, self.inner.get)

    async def explore(self, request: ExploreRequest) -> ExplorePage:
        """See `MemoryEngine`."""
        return await self._call("explore", request, self.inner.explore)

    async def consolidate(self, request: ConsolidateRequest) -> ConsolidateReceipt:
        """See `MemoryEngine`."""
        return await self._call("consolidate", request, self.inner.consolidate)

    async def beliefs(self, request: BeliefsRequest) -> "list[Hit]":
        """See `MemoryEngine`."""
        return await self._call("beliefs", request, self.inner.beliefs)

    async def unbuilt(self, reach: Reach) -> "list[ConsolidateRequest]":
        """See `MemoryEngine`."""
        return await self._call("unbuilt", reach, self.inner.unbuilt)

    async def aclose(self) -> None:
        """Close the inner engine."""
        await self.inner.aclose()

    async def _call(self, method: str, request: Any, inner: Callable[[Any], Awaitable[T]]) -> T:
        self.watch.calls.append(EngineCall(method, request))
        if method in self.watch.failures:
            raise self.watch.failures[method]
        answer = self.watch.answers.get(method, inner)(request)
        return await answer if isinstance(answer, Awaitable) else answer  # pyright: ignore[reportUnknownVariableType]  # a test's own answer
