"""§9 items 72 to 89: storing, replays, batches, and waiting until what was written can be read."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tinymemory import (
    Conversation,
    Document,
    EngineError,
    FetchRequest,
    ForgetTarget,
    GetRequest,
    InvalidRequestError,
    Learning,
    ListRequest,
    MemoryMeta,
    Reach,
    Turn,
    UnavailableError,
)
from tinymemory.engine import Item, WaitFor
from tinymemory.engines.cortex import CortexEngine, Timing
from tinymemory.engines.cortex.labels import item_label
from tinymemory.engines.cortex.surface import Surface
from tinymemory.items import DocumentBody, Role
from tinymemory.testing import CortexServer, RawAnswer, raw

Connect = Callable[..., CortexEngine]
direct_only = pytest.mark.parametrize("wire", ["direct"])
hosted_only = pytest.mark.parametrize("wire", ["hosted"])
QUICK = Timing(backoff=0.001, poll_gap=0.005, poll_gap_cap=0.02, visibility_budget=0.2, settle_budget=0.1)

LEARNING = Learning(text="prefers window seats")
DOCUMENT = Document(title="Platforms", body=DocumentBody(text="Window trains leave from platform 7."))


def conversation(*texts: str, role: Role = Role.USER, **meta: Any) -> Conversation:
    turns = tuple(Turn(role=role, text=text) for text in texts)
    return Conversation(turns=turns, meta=MemoryMeta.model_validate(meta))


CONVERSATION = conversation("which window do I like", "a window seat")


def posts(server: CortexServer) -> list[str]:
    return [
        request for request in server.seen.requests if request.startswith("POST") and "experience" in request
    ]


@pytest.mark.parametrize("item", [LEARNING, DOCUMENT, CONVERSATION], ids=lambda item: item.kind)
async def test_an_item_is_readable_by_list_get_and_fetch_when_store_returns(
    engine: CortexEngine, item: Item
) -> None:
    # §9 item 72
    receipt = await engine.store(item)

    assert receipt.id == item.fingerprint()
    assert not receipt.replayed
    [listed] = (await engine.list(ListRequest())).items
    [got] = await engine.get(GetRequest(ids=(receipt.id,)))
    [fetched] = (await engine.fetch(FetchRequest(query="window"))).hits
    assert listed == got == fetched.model_copy(update={"score": 0.0})
    assert got.text == item.render_text()
    assert got.kind is item.kind
    assert got.confidence == item.confidence


@pytest.mark.parametrize("item", [LEARNING, DOCUMENT, CONVERSATION], ids=lambda item: item.kind)
async def test_storing_the_same_item_again_writes_nothing_and_says_replayed(
    engine: CortexEngine, server: CortexServer, item: Item
) -> None:
    # §9 item 73
    await engine.store(item)
    writes = len(posts(server))

    again = await engine.store(item)

    assert again.replayed
    assert len(posts(server)) == writes


async def test_restamping_is_still_a_replay(engine: CortexEngine, server: CortexServer) -> None:
    # §9 item 74
    await engine.store(CONVERSATION)
    writes = len(posts(server))

    again = await engine.store(
        conversation(*(turn.text for turn in CONVERSATION.turns), observed_at="2026-01-01T00:00:00Z")
    )

    assert again.replayed
    assert len(posts(server)) == writes


async def test_a_forgotten_item_can_be_stored_again_at_once(engine: CortexEngine) -> None:
    # §9 item 75
    receipt = await engine.store(LEARNING)
    await engine.forget(ForgetTarget.ids([receipt.id]))

    again = await engine.store(LEARNING)

    assert not again.replayed
    assert len(await engine.get(GetRequest(ids=(receipt.id,)))) == 1


async def test_an_item_twice_in_one_batch_is_written_once(engine: CortexEngine, server: CortexServer) -> None:
    # §9 item 76
    stamped = LEARNING.model_copy(
        update={"meta": MemoryMeta.model_validate({"observed_at": "2026-01-01T00:00:00Z"})}
    )

    receipts = await engine.store_many([LEARNING, DOCUMENT, stamped, LEARNING])

    assert [receipt.replayed for receipt in receipts] == [False, False, True, True]
    assert len(server.seen.idempotency) == 2


async def test_a_conversation_half_written_is_completed_with_only_its_missing_turns(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 77
    item = conversation("one", "two", "three")
    await engine.store(item)
    scope = server.log.scopes()[0]
    server.log.lose_last(scope)
    server.log.lose_last(scope)
    writes = len(server.seen.idempotency)

    receipt = await engine.store(item)

    assert not receipt.replayed
    assert len(server.seen.idempotency) == writes + 2
    [hit] = await engine.get(GetRequest(ids=(receipt.id,)))
    assert hit.text == item.render_text()
    assert (await engine.store(item)).replayed


@direct_only
async def test_a_batch_of_one_hundred_new_items_in_one_scope_takes_four_requests(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 78
    receipts = await engine.store_many([Learning(text=f"fact number {number}") for number in range(100)])

    assert not any(receipt.replayed for receipt in receipts)
    assert [request.partition("?")[0] for request in server.seen.requests] == [
        "GET /v1/events",
        "POST /v1/experience/bulk",
        "GET /v1/events",
        "POST /v1/recall",
    ]


async def test_a_lookup_asks_for_a_hundred_labels_at_a_time_and_for_fifty_on_the_hosted_wire(
    engine: CortexEngine, server: CortexServer, surface: Surface
) -> None:
    # §9 item 78
    await engine.get(GetRequest(ids=tuple(f"{number:040x}" for number in range(120)), reach=Reach()))

    asked = [request.partition("labels=")[2] for request in server.seen.requests if "learnings" in request]
    sizes = [50, 50, 20] if surface.is_hosted else [100, 20]
    assert [len(labels.split("%2C")) for labels in asked] == sizes


@direct_only
async def test_a_conversation_is_one_ordered_bulk_and_a_single_event_is_not_a_bulk(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 79
    await engine.store(CONVERSATION)
    await engine.store(LEARNING)

    assert posts(server) == ["POST /v1/experience/bulk?wait=indexed", "POST /v1/experience?wait=indexed"]
    [bulk, single] = server.seen.writes
    assert bulk["ordering"] == "strict_temporal"
    assert [item["content"]["text"] for item in bulk["items"]] == ["which window do I like", "a window seat"]
    assert single["content"]["text"] == "prefers window seats"


@direct_only
async def test_events_go_out_in_bulks_of_at_most_five_hundred_and_sixteen_mebibytes(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 79
    await engine.store(conversation(*(f"turn {number}" for number in range(1100))))
    assert [len(body["items"]) for body in server.seen.writes] == [500, 500, 100]

    server.seen.clear()
    await engine.store_many([Learning(text=f"{number}" + "x" * 700_000) for number in range(30)])
    assert [len(body["items"]) for body in server.seen.writes] == [23, 7]


@direct_only
@pytest.mark.parametrize(
    "answer",
    [
        {"results": [{"event_id": "evt_1"}]},
        {"results": [{"event_id": "evt_1"}] * 3},
        {"results": []},
        {},
        {"results": {"event_id": "evt_1"}},
        {"results": [{"event_id": "evt_1"}, {"index": 1}]},
        {"results": [{"event_id": "evt_1"}, {"event_id": 2}]},
        {"results": [{"event_id": "evt_1"}, None]},
        {"results": [{"event_id": "evt_1"}], "failures": [{"index": 1}]},
        [],
        None,
    ],
)
async def test_a_bulk_answer_that_does_not_account_for_every_event_is_an_engine_error(
    engine: CortexEngine, server: CortexServer, answer: object
) -> None:
    # §9 item 80
    server.knobs.raw_answers = {"POST /v1/experience/bulk": [raw.json_answer(answer, 207)]}

    with pytest.raises(EngineError):
        await engine.store(CONVERSATION)


async def test_an_append_answer_without_an_event_id_is_an_engine_error(
    engine: CortexEngine, server: CortexServer, surface: Surface
) -> None:
    # §9 item 80
    server.knobs.raw_answers = {f"POST /{surface.append}": ["no_event_id"]}

    with pytest.raises(EngineError, match="names no event"):
        await engine.store(LEARNING)


@direct_only
async def test_an_accepted_turn_is_exactly_one_request_without_the_wait_parameter(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 81
    receipt = await engine.store_with(conversation("hello"), WaitFor.ACCEPTED)

    assert not receipt.replayed
    assert server.seen.requests == ["POST /v1/experience"]


async def test_the_same_turn_accepted_twice_is_a_replay(engine: CortexEngine, server: CortexServer) -> None:
    # §9 item 82
    first = await engine.store_with(conversation("hello"), WaitFor.ACCEPTED)
    second = await engine.store_with(conversation("hello"), WaitFor.ACCEPTED)

    assert (first.replayed, second.replayed) == (False, True)
    assert len((await engine.list(ListRequest())).items) == 1


@pytest.mark.parametrize("item", [LEARNING, DOCUMENT, CONVERSATION], ids=lambda item: item.kind)
async def test_an_accepted_store_of_anything_else_still_looks_it_up(
    engine: CortexEngine, server: CortexServer, surface: Surface, item: Item
) -> None:
    # §9 item 83
    await engine.store_with(item, WaitFor.ACCEPTED)
    lookups = server.seen.count(f"GET /{surface.events}")

    assert lookups == 1
    assert (await engine.store_with(item, WaitFor.ACCEPTED)).replayed
    assert not any("wait=" in request for request in server.seen.requests)


@hosted_only
async def test_the_hosted_wire_sends_one_event_a_request_in_order_and_no_direct_path(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 84
    await engine.store_many([CONVERSATION, LEARNING, DOCUMENT])

    assert posts(server) == ["POST /memory/experience"] * 4
    assert [body["content"]["text"] for body in server.seen.writes] == [
        "which window do I like",
        "a window seat",
        "prefers window seats",
        "Window trains leave from platform 7.",
    ]
    assert not any("/v1/" in request for request in server.seen.requests)


async def test_a_store_waits_for_the_last_event_of_every_scope_and_settles_only_the_last_scope(
    engine: CortexEngine, server: CortexServer, surface: Surface
) -> None:
    # §9 item 85
    earlier = Document(body=DocumentBody(text="Platform 6 is closed."))
    items: Sequence[Item] = [earlier, LEARNING, Learning(text="another window"), DOCUMENT]
    await engine.store_many(items)

    listings = [request for request in server.seen.requests if request.startswith(f"GET /{surface.events}")]
    assert len(listings) == 4  # two lookups, then two waits
    waits = {request.split("scope=")[1].split("&")[0]: request for request in listings[2:]}
    for scope, last in (("learnings", items[2]), ("documents", DOCUMENT)):
        label = item_label(last.fingerprint()).replace(":", "%3A")
        assert waits[f"app%3Atinymemory%2Fapp%3A{scope}"].endswith(f"&labels={label}")
    assert [body["scope"] for body in server.seen.recalls] == ["app:tinymemory/app:documents"]
    [probe] = server.seen.recalls
    assert probe == {
        "scope": "app:tinymemory/app:documents",
        "query": "Window trains leave from platform 7.",
        "view": "granular",
        "include": ["events"],
    }


async def test_a_settle_probe_asks_for_the_first_256_characters(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 85
    await engine.store(Learning(text="tide " * 100))

    assert server.seen.recalls[0]["query"] == ("tide " * 100)[:256]


async def test_a_store_keeps_looking_until_the_event_is_listed(
    engine: CortexEngine, server: CortexServer, surface: Surface
) -> None:
    # §9 item 85
    server.knobs.arm_after_write = (0, 3)

    await engine.store(LEARNING)

    assert server.seen.count(f"GET /{surface.events}") == 1 + 4


async def test_an_event_that_never_lists_is_unavailable_and_the_message_counts_the_polls(
    server: CortexServer, connect: Connect
) -> None:
    # §9 item 86
    server.knobs.arm_after_write = (0, 10_000)

    async with connect(server.url, timing=QUICK) as engine:
        with pytest.raises(UnavailableError) as caught:
            await engine.store(LEARNING)

    message = caught.value.message
    assert "accepted into app:tinymemory/app:learnings but did not become readable within 0.2 s" in message
    assert "polls answered without it and 0 failed" in message
    assert "would break read-after-write" in message
    assert server.seen.recalls == []


@hosted_only
async def test_the_message_counts_the_failures_too(server: CortexServer, connect: Connect) -> None:
    # §9 items 86 and 88
    server.knobs.arm_after_write = (10_000, 0)

    async with connect(server.url, timing=QUICK) as engine:
        with pytest.raises(
            UnavailableError, match=r"0 polls answered without it and \d+ failed, the last with .*429"
        ):
            await engine.store(LEARNING)


@hosted_only
async def test_a_wait_that_a_rate_limit_used_up_says_when_to_come_back(
    server: CortexServer, connect: Connect
) -> None:
    server.knobs.arm_after_write = (10_000, 0)
    server.knobs.rate_limit_headers = {"Retry-After": 0}

    async with connect(server.url, timing=QUICK) as engine:
        with pytest.raises(UnavailableError, match="did not become readable") as caught:
            await engine.store(LEARNING)

    assert caught.value.retry_after == 0.0


async def test_recall_being_down_does_not_fail_a_store(server: CortexServer, connect: Connect) -> None:
    # §9 item 87
    for knob in ("recall_down", "refuse_recall"):
        setattr(server.knobs, knob, True)
        async with connect(server.url, timing=QUICK) as engine:
            assert not (await engine.store(Learning(text=knob))).replayed


async def test_a_ranking_that_never_shows_the_event_does_not_fail_a_store(
    server: CortexServer, connect: Connect, surface: Surface
) -> None:
    # §9 item 87
    empty = raw.json_answer({"success": True, "data": {"layers": {}}, "layers": {}})
    server.knobs.raw_answers = {f"POST /{surface.recall}": [empty] * 10_000}

    async with connect(server.url, timing=QUICK) as engine:
        assert not (await engine.store(LEARNING)).replayed
    assert server.seen.count(f"POST /{surface.recall}") > 1


async def test_a_recall_that_hangs_does_not_hold_a_store_beyond_its_budget(
    server: CortexServer, connect: Connect
) -> None:
    # §9 item 87
    server.knobs.recall_delay = 20.0

    async with connect(server.url, timing=QUICK) as engine:
        assert not (await engine.store(LEARNING)).replayed


@direct_only
async def test_a_direct_listing_error_while_waiting_is_raised(server: CortexServer, connect: Connect) -> None:
    # §9 item 88
    server.knobs.arm_after_write = (10_000, 0)

    async with connect(server.url, timing=QUICK) as engine:
        with pytest.raises(UnavailableError, match=r"v1/events .*429"):
            await engine.store(LEARNING)

    assert server.seen.count("GET /v1/events") == 1 + 3


@hosted_only
async def test_a_hosted_transient_error_while_waiting_is_ridden_out(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 88
    server.knobs.arm_after_write = (7, 1)

    assert not (await engine.store(LEARNING)).replayed


@hosted_only
async def test_a_hosted_settled_error_while_waiting_is_raised(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 88
    page = raw.json_answer({"success": True, "data": {"items": []}})
    server.knobs.raw_answers = {"GET /memory/events": [page, RawAnswer(422, {}, b"{}")]}

    with pytest.raises(InvalidRequestError):
        await engine.store(LEARNING)


@pytest.mark.parametrize(
    "invalid",
    [Learning(text=" "), Document(body=DocumentBody(text="\u2003")), conversation(), conversation("ok", " ")],
    ids=lambda item: item.kind,
)
async def test_a_batch_with_one_invalid_item_sends_nothing(
    engine: CortexEngine, server: CortexServer, invalid: Item
) -> None:
    # §9 item 89
    with pytest.raises(InvalidRequestError):
        await engine.store_many([LEARNING, invalid])
    with pytest.raises(InvalidRequestError):
        await engine.store(invalid)
    for batch in ([], [LEARNING] * 101):
        with pytest.raises(InvalidRequestError):
            await engine.store_many(batch)

    assert server.seen.requests == []
    assert server.seen.whoami == []


async def test_a_text_with_half_a_character_is_refused_before_anything_is_sent(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 89
    broken = LEARNING.model_copy(update={"text": "half \ud83d of one"})

    with pytest.raises(InvalidRequestError):
        await engine.store(broken)

    assert server.seen.requests == []


@direct_only
async def test_an_error_part_way_keeps_what_came_before_and_storing_again_completes_it(
    engine: CortexEngine, server: CortexServer
) -> None:
    batch = [Learning(text=f"fact {number}") for number in range(5)]
    server.knobs.fail_nth_write = 3

    with pytest.raises(InvalidRequestError):
        await engine.store_many(batch)
    receipts = await engine.store_many(batch)

    assert [receipt.replayed for receipt in receipts] == [True, True, False, False, False]
    assert len((await engine.list(ListRequest())).items) == 5


async def test_polls_on_the_hosted_wire_grow_apart(
    server: CortexServer, connect: Connect, surface: Surface
) -> None:
    # §9 item 86
    slept: list[float] = []
    now = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        slept.append(seconds)
        now += seconds

    server.knobs.arm_after_write = (0, 10_000)
    timing = replace(Timing(), clock=lambda: now, sleep=sleep)
    async with connect(server.url, timing=timing) as engine:
        with pytest.raises(UnavailableError):
            await engine.store(LEARNING)

    gaps = [gap for gap in slept if gap]
    assert sum(gaps) == pytest.approx(30.0)
    assert gaps[:5] == ([0.25, 0.5, 1.0, 2.0, 2.0] if surface.is_hosted else [0.25] * 5)
