"""What every engine gets for nothing: the defaults of the interface, over an engine of seven methods."""

import pytest

from tinymemory import (
    BeliefsRequest,
    Bucket,
    ConsolidateRequest,
    Consolidation,
    EngineDescriptor,
    EngineHealth,
    ExploreRequest,
    Facet,
    FetchMode,
    FetchPage,
    FetchRequest,
    ForgetReport,
    ForgetTarget,
    GetRequest,
    InvalidRequestError,
    ItemKind,
    Learning,
    ListPage,
    ListRequest,
    MemoryEngine,
    MemoryMeta,
    MetaFilter,
    Namespace,
    Reach,
    RecallAnswer,
    RecallRequest,
    ReferenceEngine,
    StoreReceipt,
    UnavailableError,
    UnsupportedError,
    WaitFor,
)
from tinymemory.engine import Item


class Seven(MemoryEngine):
    """The seven methods an engine must have, and no more."""

    def __init__(self) -> None:
        self.inner = ReferenceEngine()
        self.pages = 0
        self.limits: set[int] = set()
        self.fail_at: str | None = None

    @property
    def descriptor(self) -> EngineDescriptor:
        return EngineDescriptor(id="seven", label="Seven", description="", fetch_modes=(FetchMode.KEYWORD,))

    async def health(self) -> EngineHealth:
        return EngineHealth.ok()

    async def recall(self, request: RecallRequest) -> RecallAnswer:
        return await self.inner.recall(request)

    async def fetch(self, request: FetchRequest) -> FetchPage:
        return await self.inner.fetch(request)

    async def store(self, item: Item) -> StoreReceipt:
        if item.render_text() == self.fail_at:
            raise UnavailableError("busy")
        return await self.inner.store(item)

    async def forget(self, target: ForgetTarget) -> ForgetReport:
        return await self.inner.forget(target)

    async def list(self, request: ListRequest) -> ListPage:
        self.pages += 1
        self.limits.add(request.limit)
        return await self.inner.list(request)


def learnings(count: int, at: str = "root") -> list[Learning]:
    meta = MemoryMeta(namespace=Namespace.parse(at), tags=(at,))
    return [Learning(text=f"{at} {number}", meta=meta) for number in range(count)]


def learning(text: str, **meta: object) -> Learning:
    return Learning(text=text, meta=MemoryMeta.model_validate(meta))


@pytest.fixture
def engine() -> Seven:
    return Seven()


async def test_get_pages_the_listing_and_answers_in_the_order_named(engine: Seven) -> None:
    ids = [(await engine.store(item)).id for item in learnings(450)]

    found = await engine.get(GetRequest(ids=(ids[449], "unknown", ids[3], ids[449])))

    assert [hit.id for hit in found] == [ids[449], ids[3]]
    assert engine.pages == 3
    assert engine.limits == {200}


async def test_get_leaves_out_what_is_out_of_reach(engine: Seven) -> None:
    mine, theirs = [(await engine.store(learnings(1, at)[0])).id for at in ("team:a", "team:b")]

    found = await engine.get(GetRequest(ids=(theirs, mine), reach=Reach.of("team:a")))

    assert [hit.id for hit in found] == [mine]


async def test_explore_counts_largest_first_then_by_value(engine: Seven) -> None:
    for at, count in (("team:b", 2), ("team:a", 2), ("team:c", 3)):
        for item in learnings(count, at):
            await engine.store(item)

    page = await engine.explore(ExploreRequest(facet=Facet.TAG, limit=2))

    assert page.buckets == [Bucket(value="team:c", count=3), Bucket(value="team:a", count=2)]
    assert (page.total, page.missing, page.more_buckets, page.truncated) == (7, 0, True, False)


async def test_explore_stops_at_its_scan_limit_and_says_so(engine: Seven) -> None:
    for item in learnings(5):
        await engine.store(item)

    short = await engine.explore(ExploreRequest(facet=Facet.URL, scan_limit=4))
    exact = await engine.explore(ExploreRequest(facet=Facet.URL, scan_limit=5))

    assert (short.total, short.missing, short.truncated) == (4, 4, True)
    assert (exact.total, exact.missing, exact.truncated) == (5, 5, False)


async def test_the_newest_are_sorted_from_the_whole_listing(engine: Seven) -> None:
    for number in (3, 1, 2):
        await engine.store(learning(f"day {number}", observed_at=f"2026-01-0{number}T00:00:00Z"))
    await engine.store(learning("undated"))
    await engine.store(learning("elsewhere", namespace="team:b", observed_at="2026-02-01T00:00:00Z"))

    hits = [hit async for hit in engine.newest(MetaFilter(), except_within=Reach.subtree("team:b"))]

    assert [hit.text for hit in hits] == ["day 3", "day 2", "day 1", "undated"]
    assert engine.limits == {100}


async def test_a_batch_is_stored_in_order_and_stops_at_the_first_error(engine: Seven) -> None:
    engine.fail_at = "root 2"

    with pytest.raises(UnavailableError):
        await engine.store_many(learnings(4))

    listed = await engine.list(ListRequest(limit=200))
    assert [hit.text for hit in listed.items] == ["root 0", "root 1"]


async def test_a_batch_with_one_invalid_item_stores_nothing(engine: Seven) -> None:
    with pytest.raises(InvalidRequestError):
        await engine.store_many([*learnings(2), Learning(text=" ")])

    assert (await engine.list(ListRequest(limit=200))).items == []


@pytest.mark.parametrize("count", [0, 101])
async def test_a_batch_holds_1_to_100_items(engine: Seven, count: int) -> None:
    with pytest.raises(InvalidRequestError):
        await engine.store_many(learnings(count))


async def test_a_hundred_items_fit_one_batch(engine: Seven) -> None:
    receipts = await engine.store_many(learnings(100))

    assert [receipt.replayed for receipt in receipts] == [False] * 100


async def test_storing_with_a_wait_is_storing(engine: Seven) -> None:
    assert not (await engine.store_with(learnings(1)[0])).replayed
    assert (await engine.store_with(learnings(1)[0], wait=WaitFor.ACCEPTED)).replayed


async def test_a_build_is_unsupported_and_a_malformed_one_is_malformed_first(engine: Seven) -> None:
    with pytest.raises(UnsupportedError):
        await engine.consolidate(ConsolidateRequest(reach=Reach()))
    with pytest.raises(InvalidRequestError):
        await engine.consolidate(
            ConsolidateRequest(reach=Reach(), kinds=(ItemKind.DOCUMENT, ItemKind.DOCUMENT))
        )


async def test_there_are_no_beliefs_and_nothing_is_unbuilt(engine: Seven) -> None:
    assert await engine.beliefs(BeliefsRequest(reach=Reach())) == []
    assert await engine.unbuilt(Reach()) == []
    with pytest.raises(InvalidRequestError):
        await engine.beliefs(BeliefsRequest(reach=Reach(), limit=0))


async def test_an_engine_is_a_context_manager_and_closes_more_than_once(engine: Seven) -> None:
    async with engine as entered:
        assert entered is engine
    await engine.aclose()


def test_a_descriptor_says_which_modes_are_served(engine: Seven) -> None:
    descriptor = engine.descriptor

    assert descriptor.supports(FetchMode.KEYWORD)
    assert not descriptor.supports(FetchMode.HYBRID)
    descriptor.ensure_mode(FetchMode.KEYWORD)
    with pytest.raises(UnsupportedError, match="seven"):
        descriptor.ensure_mode(FetchMode.HYBRID)
    assert descriptor.consolidation is Consolidation.NONE
    assert EngineDescriptor.model_validate_json(descriptor.model_dump_json()) == descriptor


def test_a_class_without_the_seven_is_no_engine() -> None:
    assert MemoryEngine.__abstractmethods__ == {
        "descriptor",
        "health",
        "recall",
        "fetch",
        "store",
        "forget",
        "list",
    }


def test_health_is_a_state_and_a_reason_on_the_wire() -> None:
    assert EngineHealth.ok().model_dump(mode="json") == {"state": "ok"}
    assert EngineHealth.degraded("slow").model_dump(mode="json") == {"state": "degraded", "reason": "slow"}
    assert EngineHealth.down("gone").model_dump(mode="json") == {"state": "down", "reason": "gone"}
    assert EngineHealth.model_validate({"state": "ok"}) == EngineHealth.ok()


async def test_every_method_of_the_reference_engine_refuses_before_anything_else() -> None:
    engine = ReferenceEngine()
    for call in (
        engine.recall(RecallRequest(question=" ")),
        engine.fetch(FetchRequest(query=" ")),
        engine.list(ListRequest(limit=0)),
        engine.store(Learning(text=" ")),
        engine.store_with(Learning(text=" "), wait=WaitFor.ACCEPTED),
        engine.store_many([]),
        engine.forget(ForgetTarget.filter(MetaFilter())),
        engine.explore(ExploreRequest(facet=Facet.KIND, limit=0)),
        engine.get(GetRequest(ids=())),
        engine.beliefs(BeliefsRequest(reach=Reach(), limit=0)),
    ):
        with pytest.raises(InvalidRequestError):
            await call
