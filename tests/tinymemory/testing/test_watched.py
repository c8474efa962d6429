"""An engine under observation notes what it is asked, and fails or answers as a test wants."""

import pytest

from tinymemory import (
    BeliefsRequest,
    ConsolidateRequest,
    EngineDescriptor,
    ExploreRequest,
    Facet,
    FetchPage,
    FetchRequest,
    ForgetTarget,
    GetRequest,
    Learning,
    ListRequest,
    Reach,
    RecallRequest,
    ReferenceEngine,
    UnavailableError,
    conformance,
)
from tinymemory.testing import EngineCall, WatchedEngine


@pytest.fixture
def engine() -> WatchedEngine:
    return WatchedEngine(ReferenceEngine())


async def test_a_watched_engine_keeps_every_promise_of_the_one_inside(engine: WatchedEngine) -> None:
    await conformance.run(engine)

    assert engine.descriptor == ReferenceEngine.DESCRIPTOR


async def test_every_call_is_noted_with_its_request(engine: WatchedEngine) -> None:
    learning = Learning(text="refunds")
    reach = Reach()
    receipt = await engine.store(learning)
    asked = [
        EngineCall("store", learning),
        EngineCall("health", None),
        EngineCall("fetch", FetchRequest(query="refunds")),
        EngineCall("recall", RecallRequest(question="refunds?")),
        EngineCall("list", ListRequest()),
        EngineCall("get", GetRequest(ids=(receipt.id,))),
        EngineCall("explore", ExploreRequest(facet=Facet.KIND)),
        EngineCall("beliefs", BeliefsRequest()),
        EngineCall("consolidate", ConsolidateRequest(reach=reach)),
        EngineCall("unbuilt", reach),
        EngineCall("store_with", learning),
        EngineCall("store_many", [learning]),
        EngineCall("forget", ForgetTarget.ids([receipt.id])),
    ]
    for call in asked[1:]:
        method = getattr(engine, call.method)
        await (method() if call.request is None else method(call.request))

    assert engine.watch.calls == asked
    assert engine.watch.requests("list") == [ListRequest()]


async def test_a_method_fails_or_answers_as_it_is_told(engine: WatchedEngine) -> None:
    engine.watch.failures["store"] = UnavailableError("down")
    engine.watch.answers["fetch"] = lambda _: FetchPage(next_cursor="more")

    with pytest.raises(UnavailableError):
        await engine.store(Learning(text="refunds"))
    assert (await engine.fetch(FetchRequest(query="refunds"))).next_cursor == "more"


def test_a_watched_engine_may_say_it_is_another() -> None:
    descriptor = EngineDescriptor(id="x", label="X", description="")

    assert WatchedEngine(ReferenceEngine(), descriptor=descriptor).descriptor is descriptor
