"""The conformance suite bites: an engine broken in one way is caught by exactly the check for it."""

import asyncio
import pickle
from collections.abc import Sequence

import pytest

from tinymemory import (
    MAX_STORE_MANY,
    BeliefsRequest,
    Citation,
    ConformanceError,
    ConsolidateReceipt,
    ConsolidateRequest,
    ConsolidateStatus,
    EngineDescriptor,
    EngineHealth,
    ExplorePage,
    ExploreRequest,
    FetchMode,
    FetchPage,
    FetchRequest,
    ForgetReport,
    ForgetTarget,
    GetRequest,
    Hit,
    InvalidRequestError,
    ItemKind,
    Learning,
    ListPage,
    ListRequest,
    MemoryMeta,
    MetaFilter,
    RecallAnswer,
    RecallRequest,
    ReferenceEngine,
    StoreReceipt,
    TinyMemoryError,
    UnavailableError,
    WaitFor,
)
from tinymemory.conformance import CHECKS, run, run_check
from tinymemory.engine import Item, ensure_batch


class Down(ReferenceEngine):
    async def health(self) -> EngineHealth:
        return EngineHealth.down("the key was rejected")


class HealthRaises(ReferenceEngine):
    async def health(self) -> EngineHealth:
        raise UnavailableError("no answer")


class CutsTexts(ReferenceEngine):
    async def list(self, request: ListRequest) -> ListPage:
        page = await super().list(request)
        return page.model_copy(
            update={"items": [hit.model_copy(update={"text": hit.text[:-1]}) for hit in page.items]}
        )


class LosesTags(ReferenceEngine):
    async def get(self, request: GetRequest) -> list[Hit]:
        return [
            hit.model_copy(update={"meta": hit.meta.model_copy(update={"tags": ()})})
            for hit in await super().get(request)
        ]


class RepeatsAcrossPages(ReferenceEngine):
    async def list(self, request: ListRequest) -> ListPage:
        page = await super().list(request)
        if request.limit > 1 or request.cursor is None:
            return page
        first = await super().list(request.model_copy(update={"cursor": None}))
        return page.model_copy(update={"items": first.items})


class ForgetsReplays(ReferenceEngine):
    async def store(self, item: Item) -> StoreReceipt:
        return (await super().store(item)).model_copy(update={"replayed": False})

    async def store_with(self, item: Item, wait: WaitFor = WaitFor.VISIBLE) -> StoreReceipt:
        return await super().store(item)

    async def store_many(self, items: Sequence[Item]) -> list[StoreReceipt]:
        ensure_batch(items)
        return [await ReferenceEngine.store(self, item) for item in items]


class CountsTwice(ReferenceEngine):
    async def explore(self, request: ExploreRequest) -> ExplorePage:
        page = await super().explore(request)
        return page.model_copy(update={"missing": page.missing + 1})


class ScansOn(ReferenceEngine):
    async def explore(self, request: ExploreRequest) -> ExplorePage:
        request.ensure_valid()
        return await super().explore(request.model_copy(update={"scan_limit": 5000}))


class GetsInStoredOrder(ReferenceEngine):
    async def get(self, request: GetRequest) -> list[Hit]:
        found = {hit.id: hit for hit in await super().get(request)}
        return [found[id_] for id_ in self._items if id_ in found]


class GetsWithoutEnd(ReferenceEngine):
    async def get(self, request: GetRequest) -> list[Hit]:
        found: list[Hit] = []
        for start in range(0, len(request.ids), 100):
            part = request.model_copy(update={"ids": request.ids[start : start + 100]})
            found += await super().get(part)
        return found


class StoresBatchesBackwards(ReferenceEngine):
    async def store_many(self, items: Sequence[Item]) -> list[StoreReceipt]:
        return await super().store_many(items[::-1])


class StoresHalfABatch(ReferenceEngine):
    async def store_many(self, items: Sequence[Item]) -> list[StoreReceipt]:
        if not 1 <= len(items) <= MAX_STORE_MANY:
            raise InvalidRequestError("too few or too many")
        return [await self.store(item) for item in items]


class AcceptsAndDrops(ReferenceEngine):
    async def store_with(self, item: Item, wait: WaitFor = WaitFor.VISIBLE) -> StoreReceipt:
        if wait is WaitFor.VISIBLE:
            return await self.store(item)
        item.validate_storable()
        return StoreReceipt(id=item.fingerprint(), replayed=False)


class AcceptsUnderAnotherId(ReferenceEngine):
    async def store_with(self, item: Item, wait: WaitFor = WaitFor.VISIBLE) -> StoreReceipt:
        receipt = await self.store(item)
        return receipt if wait is WaitFor.VISIBLE else receipt.model_copy(update={"id": "0" * 40})


class FetchIgnores(ReferenceEngine):
    """Ignores one field of a filter in one mode of fetch."""

    field = "commit"
    mode = FetchMode.VECTOR

    async def fetch(self, request: FetchRequest) -> FetchPage:
        if request.mode is self.mode:
            filter_ = request.filter.model_copy(update={self.field: None})
            request = request.model_copy(update={"filter": filter_})
        return await super().fetch(request)


class FetchesOnePageForEver(ReferenceEngine):
    async def fetch(self, request: FetchRequest) -> FetchPage:
        page = await super().fetch(request)
        if page.next_cursor is None:
            return page
        first = await super().fetch(request.model_copy(update={"cursor": None}))
        return page.model_copy(update={"next_cursor": first.next_cursor})


class ServesMoreThanItSays(ReferenceEngine):
    @property
    def descriptor(self) -> EngineDescriptor:
        return super().descriptor.model_copy(update={"fetch_modes": (FetchMode.KEYWORD,)})

    async def fetch(self, request: FetchRequest) -> FetchPage:
        return await super().fetch(request.model_copy(update={"mode": FetchMode.KEYWORD}))


class Leaky(ReferenceEngine):
    """Reads a node's siblings with it, in one of its reads."""

    def widened(self, filter_: MetaFilter) -> MetaFilter:
        return filter_.model_copy(update={"reach": None})


class ListLeaks(Leaky):
    async def list(self, request: ListRequest) -> ListPage:
        return await super().list(request.model_copy(update={"filter": self.widened(request.filter)}))


class GetLeaks(ReferenceEngine):
    async def get(self, request: GetRequest) -> list[Hit]:
        return await super().get(request.model_copy(update={"reach": None}))


class RecallLeaks(Leaky):
    async def recall(self, request: RecallRequest) -> RecallAnswer:
        return await super().recall(request.model_copy(update={"filter": self.widened(request.filter)}))


class DoesNotInherit(ReferenceEngine):
    async def fetch(self, request: FetchRequest) -> FetchPage:
        page = await super().fetch(request)
        reach = request.filter.reach
        if reach is None or reach.descendants:
            return page
        return page.model_copy(update={"hits": [hit for hit in page.hits if hit.meta.namespace == reach.at]})


class ForgetsEverything(ReferenceEngine):
    async def forget(self, target: ForgetTarget) -> ForgetReport:
        if target.wanted_filter is not None and target.wanted_filter.is_empty:
            gone, self._items = len(self._items), {}
            return ForgetReport(forgotten=gone)
        return await super().forget(target)


class ForgetsNothingQuietly(ReferenceEngine):
    async def forget(self, target: ForgetTarget) -> ForgetReport:
        if target.wanted_ids == ():
            return ForgetReport(forgotten=0)
        return await super().forget(target)


class ForgetsOnlyTheFirstId(ReferenceEngine):
    async def forget(self, target: ForgetTarget) -> ForgetReport:
        if target.wanted_ids:
            target = ForgetTarget.ids(target.wanted_ids[:1])
        return await super().forget(target)


class CountsIdsNamed(ReferenceEngine):
    async def forget(self, target: ForgetTarget) -> ForgetReport:
        report = await super().forget(target)
        return ForgetReport(forgotten=len(target.wanted_ids)) if target.wanted_ids else report


class ForgetsInTheWholeTree(ReferenceEngine):
    async def forget(self, target: ForgetTarget) -> ForgetReport:
        if target.wanted_filter is not None and target.wanted_filter.tags_any:
            target = ForgetTarget.filter(MetaFilter(tags_any=target.wanted_filter.tags_any))
        return await super().forget(target)


class CitesTheUnknown(ReferenceEngine):
    async def recall(self, request: RecallRequest) -> RecallAnswer:
        answer = await super().recall(request)
        ghost = Citation(id="0" * 40, kind=ItemKind.LEARNING, snippet="x", meta=MemoryMeta())
        return answer.model_copy(update={"citations": [ghost] if request.limit == 5 else []})


class AnswersBlank(ReferenceEngine):
    async def recall(self, request: RecallRequest) -> RecallAnswer:
        return (await super().recall(request)).model_copy(update={"answer": ""})


class LeavesBuildsToASchedule(ReferenceEngine):
    async def consolidate(self, request: ConsolidateRequest) -> ConsolidateReceipt:
        request.ensure_valid()
        return ConsolidateReceipt(status=ConsolidateStatus.SCHEDULED)


class BelievesElsewhere(ReferenceEngine):
    async def beliefs(self, request: BeliefsRequest) -> list[Hit]:
        request.ensure_valid()
        tagged = MemoryMeta(tags=("belief",))
        listed = await self.list(ListRequest(filter=MetaFilter(reach=request.reach)))
        return [Hit(id="b", kind=ItemKind.LEARNING, text="x", meta=tagged)] if listed.items else []


class BelievesUntagged(ReferenceEngine):
    async def beliefs(self, request: BeliefsRequest) -> list[Hit]:
        request.ensure_valid()
        page = await self.list(ListRequest(filter=MetaFilter(reach=request.reach), limit=request.limit))
        return [hit for hit in page.items if hit.kind is ItemKind.LEARNING]


class KeepsWhatAReachHolds(ReferenceEngine):
    async def forget(self, target: ForgetTarget) -> ForgetReport:
        wanted = target.wanted_filter
        if wanted is not None and wanted == MetaFilter(reach=wanted.reach) and not wanted.is_empty:
            return ForgetReport(forgotten=0)
        return await super().forget(target)


class BelievesForEver(ReferenceEngine):
    """Keeps a belief for each document it ever held."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[Hit] = []

    async def store(self, item: Item) -> StoreReceipt:
        receipt = await super().store(item)
        meta = MemoryMeta(namespace=item.meta.namespace, tags=("belief",))
        self.kept.append(Hit(id=receipt.id[::-1], kind=ItemKind.LEARNING, text="x", meta=meta))
        return receipt

    async def beliefs(self, request: BeliefsRequest) -> list[Hit]:
        request.ensure_valid()
        return [hit for hit in self.kept if request.reach.admits(hit.meta.namespace)][: request.limit]


BROKEN: list[tuple[str, type[ReferenceEngine]]] = [
    ("health", Down),
    ("health", HealthRaises),
    ("round_trip", CutsTexts),
    ("round_trip", LosesTags),
    ("round_trip", RepeatsAcrossPages),
    ("replay", ForgetsReplays),
    ("explore", CountsTwice),
    ("explore", ScansOn),
    ("get", GetsInStoredOrder),
    ("get", GetsWithoutEnd),
    ("store_many", StoresBatchesBackwards),
    ("store_many", StoresHalfABatch),
    ("store_with", AcceptsAndDrops),
    ("store_with", AcceptsUnderAnotherId),
    ("fetch_filters", FetchIgnores),
    ("fetch_filters", FetchesOnePageForEver),
    ("unsupported_modes", ServesMoreThanItSays),
    ("namespaces", ListLeaks),
    ("namespaces", GetLeaks),
    ("namespaces", RecallLeaks),
    ("namespaces", DoesNotInherit),
    ("empty_forget", ForgetsEverything),
    ("empty_forget", ForgetsNothingQuietly),
    ("forget_by_id", ForgetsOnlyTheFirstId),
    ("forget_by_id", CountsIdsNamed),
    ("forget_by_filter", ForgetsInTheWholeTree),
    ("recall", CitesTheUnknown),
    ("recall", AnswersBlank),
    ("consolidate", LeavesBuildsToASchedule),
    ("consolidate", BelievesElsewhere),
    ("consolidate", BelievesUntagged),
    ("cleanup", KeepsWhatAReachHolds),
    ("cleanup", BelievesForEver),
]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What never becomes readable is given up on at once."""
    monkeypatch.setattr("tinymemory.conformance.lab.ACCEPTED_SECONDS", 0.2)


async def failing(kind: type[ReferenceEngine]) -> list[str]:
    """The checks an engine fails, each run on an engine of its own."""
    failed: list[str] = []
    for name in CHECKS:
        try:
            await run_check(kind(), name)
        except ConformanceError as error:
            failed.append(error.check)
    return failed


@pytest.mark.parametrize(("check", "kind"), BROKEN, ids=lambda value: getattr(value, "__name__", value))
async def test_a_broken_engine_is_caught_by_the_check_for_it_and_by_no_other(
    check: str, kind: type[ReferenceEngine]
) -> None:
    assert await failing(kind) == [check]
    with pytest.raises(ConformanceError) as caught:
        await run(kind())
    assert caught.value.check == check


def test_every_check_is_shown_to_bite() -> None:
    assert list(dict.fromkeys(check for check, _ in BROKEN)) == list(CHECKS)


@pytest.mark.parametrize(
    "field", sorted(set(MetaFilter.model_fields) - {"reach", "kinds", "sources", "tags_any"})
)
@pytest.mark.parametrize("mode", FetchMode)
async def test_a_fetch_that_ignores_any_one_field_in_any_one_mode_is_caught(
    field: str, mode: FetchMode
) -> None:
    engine = FetchIgnores()
    engine.field, engine.mode = field, mode

    with pytest.raises(ConformanceError) as caught:
        await run_check(engine, "fetch_filters")

    assert f"`{field}`" in caught.value.detail
    assert mode in caught.value.detail


async def test_a_sound_engine_passes_whole_and_is_left_as_it_was() -> None:
    engine = ReferenceEngine()
    await engine.store(Learning(text="the lighthouse keeper logs the tide elsewhere"))

    await run(engine)

    assert [hit.text for hit in (await engine.list(ListRequest())).items] == [
        "the lighthouse keeper logs the tide elsewhere"
    ]


@pytest.mark.parametrize(("check", "kind"), BROKEN, ids=lambda value: getattr(value, "__name__", value))
async def test_what_a_run_wrote_is_gone_after_a_failure(check: str, kind: type[ReferenceEngine]) -> None:
    engine = kind()

    with pytest.raises(ConformanceError):
        await run(engine)

    left = [stored.item.render_text() for stored in engine._items.values()]  # pyright: ignore[reportPrivateUsage]  # what the broken reads may hide
    if kind is not ForgetsEverything:
        assert left == []


class StoreFails(ReferenceEngine):
    async def store(self, item: Item) -> StoreReceipt:
        raise UnavailableError("busy", retry_after=3.0)


async def test_the_engines_own_error_is_the_cause() -> None:
    with pytest.raises(ConformanceError) as caught:
        await run(StoreFails())

    assert caught.value.check == "round_trip"
    assert isinstance(caught.value.__cause__, UnavailableError)
    assert "busy" in str(caught.value)


class ForgetFailsToo(CutsTexts):
    async def forget(self, target: ForgetTarget) -> ForgetReport:
        raise UnavailableError("still busy")


async def test_a_failing_clean_up_is_a_note_on_the_failure_before_it() -> None:
    with pytest.raises(ConformanceError) as caught:
        await run(ForgetFailsToo())

    assert caught.value.check == "round_trip"
    assert any("still busy" in note for note in caught.value.__notes__)


class Hangs(ReferenceEngine):
    async def recall(self, request: RecallRequest) -> RecallAnswer:
        await asyncio.Event().wait()
        raise AssertionError


async def test_a_run_that_is_cancelled_tidies_up() -> None:
    engine = Hangs()
    task = asyncio.create_task(run_check(engine, "recall"))
    while not engine._items:  # pyright: ignore[reportPrivateUsage]  # the engine has no event for it
        await asyncio.sleep(0)

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert not engine._items  # pyright: ignore[reportPrivateUsage]  # as above


def test_a_conformance_error_is_a_library_error_and_comes_through_pickle() -> None:
    error = ConformanceError("get", "it lies")

    twin = pickle.loads(pickle.dumps(error))

    assert isinstance(error, TinyMemoryError)
    assert (twin.check, twin.detail, str(twin)) == ("get", "it lies", "get: it lies")
    assert twin == error
