"""Which scopes a listing names, and the erasures that empty them."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tinymemory.testing import CortexServer

Event = Callable[..., dict[str, Any]]
ANN, ANNA = "app:tinymemory/user:ann/app:learnings", "app:tinymemory/user:anna/app:learnings"


async def paths(cortex: httpx.AsyncClient, **params: str) -> list[str]:
    answer = await cortex.get("/v1/scopes/list", params=params)
    assert answer.status_code == 200, answer.text
    return [item["path"] for item in answer.json()["items"]]


async def test_every_scope_ever_written_to_is_listed_once_and_sorted(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event
) -> None:
    for scope in (ANNA, ANN, ANNA):
        direct.log.append(event(scope=scope))

    assert await paths(cortex) == [ANN, ANNA]


async def test_a_scope_stays_listed_after_all_its_events_were_forgotten(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event
) -> None:
    direct.log.append(event(scope=ANN))
    body = {"scope": ANN, "selector": {"memory_ids": ["evt_1"]}, "cascade": "redact_events"}
    await cortex.post("/v1/forget", json=body)

    assert direct.log.events(ANN) == []
    assert await paths(cortex) == [ANN]


async def test_a_dropped_scope_was_never_registered(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event
) -> None:
    direct.log.append(event(scope=ANN))

    direct.log.drop_scope(ANN)

    assert await paths(cortex) == []


async def test_a_prefix_matches_whole_segments(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event
) -> None:
    for scope in (ANN, ANNA):
        direct.log.append(event(scope=scope))

    assert await paths(cortex, prefix="app:tinymemory/user:ann") == [ANN]
    assert await paths(cortex, prefix=ANNA) == [ANNA]


@pytest.mark.parametrize("prefix", ["app:tinymemory/", "app", "", "/", "app:x//app:y"])
async def test_a_prefix_that_is_no_path_is_a_bad_request(cortex: httpx.AsyncClient, prefix: str) -> None:
    answer = await cortex.get("/v1/scopes/list", params={"prefix": prefix})

    assert (answer.status_code, answer.json()["error_code"]) == (400, "BAD_REQUEST")


async def test_a_scope_listing_holds_50_and_never_more_than_1000(
    direct: CortexServer, cortex: httpx.AsyncClient
) -> None:
    direct.knobs.padding_scopes = 1200

    assert len(await paths(cortex)) == 50
    assert len(await paths(cortex, limit="3")) == 3
    assert len(await paths(cortex, limit="5000")) == 1000


async def erase(cortex: httpx.AsyncClient, **body: Any) -> httpx.Response:
    return await cortex.post("/v1/erasures", json={"scope": "app:tinymemory/user:ann", **body})


async def test_an_erasure_empties_a_scope_and_what_lies_below_it(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event
) -> None:
    own = event(scope="app:tinymemory/user:ann", idempotency_key="own")
    below = event(scope=ANN, idempotency_key="below")
    for body in (own, below, event(scope=ANNA)):
        direct.log.append(body)
    direct.log.build(ANN)

    answer = await erase(cortex, confirm_all=True, audit_note="account closed")

    assert answer.status_code == 202
    assert answer.json() == {"erasure_id": "erasure_1", "status": "completed"}
    assert direct.log.events("app:tinymemory/user:ann") == direct.log.events(ANN) == []
    assert direct.log.beliefs(ANN) == []
    assert len(direct.log.events(ANNA)) == 1
    assert direct.log.append(own).replayed is False
    assert direct.log.append(below).replayed is True


async def test_an_erasure_drops_the_packs(cortex: httpx.AsyncClient) -> None:
    pack = (await cortex.post("/v1/recall", json={"scope": ANN, "query": ""})).json()["pack_id"]

    await erase(cortex, confirm_all=True)

    body = {"scope": ANN, "question": "what?", "use_pack_id": pack}
    assert (await cortex.post("/v1/answer", json=body)).status_code == 404


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"confirm_all": False},
        {"confirm_all": "yes"},
        {"confirm_all": True, "selector": {"memory_ids": ["evt_1"]}},
        {"confirm_all": True, "scope": 7},
    ],
)
async def test_an_erasure_must_be_confirmed_and_select_nothing(
    cortex: httpx.AsyncClient, body: dict[str, Any]
) -> None:
    answer = await erase(cortex, **body)

    assert (answer.status_code, answer.json()["error_code"]) == (422, "INVALID_BODY")


async def test_an_erasure_runs_for_as_many_polls_as_it_is_told(
    direct: CortexServer, cortex: httpx.AsyncClient
) -> None:
    direct.knobs.erasure_running_for = 2
    direct.knobs.erasure_status = "failed"

    started = (await erase(cortex, confirm_all=True)).json()
    polls = [(await cortex.get("/v1/erasures/erasure_1")).json()["status"] for _ in range(3)]

    assert started == {"erasure_id": "erasure_1", "status": "running"}
    assert polls == ["running", "failed", "failed"]


async def test_an_unknown_erasure_is_not_found(cortex: httpx.AsyncClient) -> None:
    assert (await cortex.get("/v1/erasures/erasure_9")).status_code == 404


async def test_erasures_can_be_incomplete_or_missing(direct: CortexServer, cortex: httpx.AsyncClient) -> None:
    direct.knobs.erasure_incomplete_for = 1

    incomplete = await erase(cortex, confirm_all=True)
    complete = await erase(cortex, confirm_all=True)
    direct.knobs.scoped_erase_missing = True
    missing = await erase(cortex, confirm_all=True)

    assert (incomplete.status_code, incomplete.json()["error_code"]) == (502, "ERASURE_INCOMPLETE")
    assert (complete.status_code, missing.status_code) == (202, 404)
    assert len(direct.seen.erasures) == 3
