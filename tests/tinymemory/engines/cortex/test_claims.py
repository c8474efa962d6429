"""§9 items 90 to 96: hosted claims, and writes whose outcome nobody was told."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from tinymemory import ConflictError, Conversation, Learning, ListRequest, MemoryMeta, Turn, UnavailableError
from tinymemory.engine import WaitFor
from tinymemory.engines.cortex import CortexEngine, Timing
from tinymemory.engines.cortex.layout import lay_out
from tinymemory.items import Role
from tinymemory.testing import CortexServer, RawAnswer, raw

Connect = Callable[..., CortexEngine]
pytestmark = pytest.mark.parametrize("wire", ["hosted"])
CLAIM = re.compile(r"tm-[0-9a-f]{16}-[0-9]{19}-[0-9]+")
QUICK = Timing(backoff=0.001, poll_gap=0.005, poll_gap_cap=0.02, visibility_budget=0.2, settle_budget=0.1)


def turn(text: str, **meta: Any) -> Conversation:
    return Conversation(turns=(Turn(role=Role.USER, text=text),), meta=MemoryMeta.model_validate(meta))


async def test_every_append_has_a_fresh_claim_of_the_right_shape_and_a_retry_reuses_it(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 90
    await engine.store_many([Learning(text="one"), Learning(text="two")])
    server.knobs.rate_limit_writes = 2
    await engine.store(Learning(text="three"))

    lines = zip(server.seen.headers, server.seen.requests, strict=True)
    sent = [headers.get("idempotency-key") for headers, line in lines if line == "POST /memory/experience"]
    assert len(sent) == 5
    assert sent[2] == sent[3] == sent[4]
    assert len(set(sent)) == 3
    assert all(claim and CLAIM.fullmatch(claim) and len(claim) <= 128 for claim in sent)


async def test_a_claim_is_never_made_from_the_content_and_never_on_a_read(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 90
    await engine.store_with(turn("same"), WaitFor.ACCEPTED)
    server.log.erase_all()
    await engine.store_with(turn("same"), WaitFor.ACCEPTED)

    keys, headers = zip(*server.seen.idempotency, strict=True)
    assert keys[0] == keys[1]
    assert headers[0] != headers[1]
    reads = [
        headers
        for headers, line in zip(server.seen.headers, server.seen.requests, strict=True)
        if line.startswith(("GET", "POST /memory/recall"))
    ]
    assert not any("idempotency-key" in headers for headers in reads)


async def test_a_retry_after_a_limit_in_front_of_the_memory_api_goes_through(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 91
    server.knobs.rate_limit_writes = 2

    receipt = await engine.store(Learning(text="limited"))

    assert not receipt.replayed
    assert len((await engine.list(ListRequest())).items) == 1


async def test_a_limit_that_stays_is_raised_after_three_attempts(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 91
    server.knobs.rate_limit_writes = 99

    with pytest.raises(UnavailableError, match="429"):
        await engine.store(Learning(text="limited"))

    assert server.seen.count("POST /memory/experience") == 3


async def test_the_attempts_of_a_write_are_250_and_then_500_milliseconds_apart(
    server: CortexServer, connect: Connect
) -> None:
    # §9 item 91
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    server.knobs.rate_limit_writes = 2
    async with connect(server.url, timing=Timing(sleep=sleep)) as engine:
        await engine.store_with(Learning(text="limited"), WaitFor.ACCEPTED)

    assert slept == [0.25, 0.5]


@pytest.mark.parametrize("status", [400, 409])
async def test_a_write_that_was_applied_and_then_failed_is_found_again_and_not_written_twice(
    engine: CortexEngine, server: CortexServer, status: int
) -> None:
    # §9 item 92
    server.knobs.apply_then_fail = 1
    server.knobs.conflict_status = status

    receipt = await engine.store(Learning(text="applied"))

    assert not receipt.replayed
    assert server.seen.count("POST /memory/experience") == 2
    assert len((await engine.list(ListRequest())).items) == 1


async def test_a_write_that_was_claimed_and_not_applied_ends_as_outcome_unknown(
    server: CortexServer, connect: Connect
) -> None:
    # §9 item 93
    server.knobs.claim_then_fail = 1

    async with connect(server.url, timing=QUICK) as engine:
        with pytest.raises(UnavailableError, match=r"outcome of a write into .* is unknown"):
            await engine.store(Learning(text="lost"))


async def test_a_conflict_on_the_first_attempt_is_a_conflict(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 94
    conflict = RawAnswer(400, {}, b'{"success": false, "error": "taken", "errorCode": "CONFLICT"}')
    server.knobs.raw_answers = {"POST /memory/experience": [conflict]}

    with pytest.raises(ConflictError) as caught:
        await engine.store(Learning(text="taken"))

    assert caught.value.code == "CONFLICT"
    assert server.seen.count("POST /memory/experience") == 1


async def test_recovery_rides_out_a_rate_limit(engine: CortexEngine, server: CortexServer) -> None:
    # §9 item 95
    server.knobs.apply_then_fail = 1
    server.knobs.arm_after_write = (7, 1)

    receipt = await engine.store(Learning(text="limited"))

    assert not receipt.replayed


async def test_recovery_does_not_ride_out_a_refusal(engine: CortexEngine, server: CortexServer) -> None:
    # §9 item 95
    first_look = RawAnswer(200, {}, b'{"success": true, "data": {"items": []}}')
    server.knobs.apply_then_fail = 1
    server.knobs.raw_answers = {"GET /memory/events": [first_look, RawAnswer(501, {}, b"")]}

    with pytest.raises(Exception, match="501"):
        await engine.store(Learning(text="refused"))


async def test_a_twin_turn_with_the_same_words_is_not_mistaken_for_the_lost_one(
    server: CortexServer, connect: Connect
) -> None:
    # §9 item 96
    both = Conversation(turns=(Turn(role=Role.USER, text="yes"), Turn(role=Role.USER, text="yes")))
    async with connect(server.url, timing=QUICK) as engine:
        await engine.store(both)
        server.log.lose_last(server.log.scopes()[0])
        server.knobs.claim_then_fail = 1

        with pytest.raises(UnavailableError, match="unknown"):
            await engine.store(both)


async def test_an_event_with_the_same_labels_and_other_words_is_not_mistaken_for_the_lost_one(
    server: CortexServer, connect: Connect
) -> None:
    # §9 item 96
    said = turn("yes")
    body: dict[str, Any] = json.loads(lay_out(said).events[0].body)
    body["content"]["text"] = "no"
    server.log.append({name: value for name, value in body.items() if name != "idempotency_key"})
    page = raw.json_answer({"success": True, "data": {"items": []}})
    server.knobs.raw_answers = {"GET /memory/events": [page]}
    server.knobs.claim_then_fail = 1

    async with connect(server.url, timing=QUICK) as engine:
        with pytest.raises(UnavailableError, match="unknown"):
            await engine.store(said)
