"""The direct wire's own: its error body, what it keeps of bodies, health and version."""

from collections.abc import Callable
from typing import Any

import httpx

from tinymemory.testing import CortexServer

Event = Callable[..., dict[str, Any]]
NOTES = "app:tinymemory/app:learnings"


async def test_a_failure_names_its_code_request_and_whether_to_try_again(
    direct: CortexServer, cortex: httpx.AsyncClient
) -> None:
    direct.knobs.rate_limit_events = 1

    settled = (await cortex.get("/v1/nowhere")).json()
    passing = (await cortex.get("/v1/events", params={"scope": NOTES})).json()

    assert settled == {
        "error_code": "NOT_FOUND",
        "message": "no such route",
        "request_id": "req_1",
        "retriable": False,
    }
    assert passing["error_code"] == "RATE_LIMITED"
    assert passing["request_id"] == "req_2"
    assert passing["retriable"] is True


async def test_health_and_version(direct: CortexServer, cortex: httpx.AsyncClient) -> None:
    health = await cortex.get("/v1/admin/health")
    version = await cortex.get("/v1/admin/version")
    direct.knobs.capabilities = []
    plain = await cortex.get("/v1/admin/version")
    direct.knobs.version_status = 403
    failing = await cortex.get("/v1/admin/version")

    assert health.json() == {"status": "healthy"}
    assert version.json() == {
        "version": "v0.10.5",
        "capabilities": ["refers_to_v1", "temporal_lenient_v1"],
    }
    assert plain.json()["capabilities"] == []
    assert failing.status_code == 403


async def test_bodies_are_kept_by_route_even_when_refused(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event
) -> None:
    refused = event("", idempotency_key="k")
    bulk = {"items": [event(idempotency_key="one"), event()]}
    await cortex.post("/v1/experience", json=refused, headers={"Idempotency-Key": "claim"})
    await cortex.post("/v1/experience/bulk", json=bulk)
    for route in ("recall", "answer", "forget", "beliefs/build", "erasures"):
        await cortex.post(f"/v1/{route}", json={"route": route})

    seen = direct.seen
    assert seen.writes == [refused, bulk]
    assert seen.idempotency == [("k", "claim"), ("one", None), (None, None)]
    kept = [seen.recalls, seen.answers, seen.forgets, seen.builds, seen.erasures]
    assert [[body["route"] for body in bodies] for bodies in kept] == [
        ["recall"],
        ["answer"],
        ["forget"],
        ["beliefs/build"],
        ["erasures"],
    ]


async def test_paths_are_read_back_as_written(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event
) -> None:
    direct.log.append(event())

    listed = (await cortex.get("/v1/events", params={"scope": NOTES})).json()
    scopes = (await cortex.get("/v1/scopes/list")).json()

    assert listed["items"][0]["scope"] == NOTES
    assert scopes == {"items": [{"path": NOTES}]}
