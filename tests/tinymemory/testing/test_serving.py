"""The HTTP the servers speak: many connections, many requests each, and peers that misbehave."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tinymemory.testing import CortexServer, ManualClock, cortex_server, wait_until

Event = Callable[..., dict[str, Any]]
NOTES = "app:tinymemory/app:learnings"
HEADERS = {"Authorization": "Bearer key"}


async def test_a_server_starts_on_a_free_loopback_port_in_milliseconds() -> None:
    started = time.perf_counter()
    async with cortex_server() as one, cortex_server(wire="hosted") as other:
        took = time.perf_counter() - started

        assert one.url.startswith("http://127.0.0.1:")
        assert one.url != other.url
        assert took < 1  # milliseconds on a calm machine; this one may be busy


async def test_a_port_can_be_named_and_a_taken_one_is_an_os_error() -> None:
    async with cortex_server() as first:
        port = int(first.url.rpartition(":")[2])
        with pytest.raises(OSError, match=str(port)):
            async with cortex_server(port=port):
                pass
    async with cortex_server(port=port) as again:
        assert again.url == first.url


async def test_an_unknown_wire_is_refused() -> None:
    with pytest.raises(ValueError, match="carrier-pigeon"):
        async with cortex_server(wire="carrier-pigeon"):  # pyright: ignore[reportArgumentType]  # the point
            pass


async def test_two_servers_share_nothing(event: Event) -> None:
    async with cortex_server() as one, cortex_server() as other:
        one.log.append(event())
        one.knobs.accept_token = "key"

        assert other.log.scopes() == []
        assert other.knobs.accept_token is None


async def test_requests_on_one_connection_are_served_one_after_another(direct: CortexServer) -> None:
    limits = httpx.Limits(max_connections=1)
    async with httpx.AsyncClient(base_url=direct.url, headers=HEADERS, limits=limits) as http:
        answers = await asyncio.gather(*(http.get("/v1/admin/health") for _ in range(20)))

    assert [answer.status_code for answer in answers] == [200] * 20


async def test_concurrent_appends_are_all_written(direct: CortexServer, event: Event) -> None:
    async with httpx.AsyncClient(base_url=direct.url, headers=HEADERS) as http:
        posts = (http.post("/v1/experience", json=event(f"note {number}")) for number in range(100))
        answers = await asyncio.gather(*posts)

    assert {answer.json()["event_id"] for answer in answers} == {f"evt_{number}" for number in range(1, 101)}


async def test_a_body_over_32_mib_is_too_large(direct: CortexServer, hosted: CortexServer) -> None:
    content = b"x" * (32 * 1024 * 1024 + 1)
    async with httpx.AsyncClient(headers=HEADERS) as http:
        by_server = await http.post(direct.url + "/v1/experience", content=content)
        by_backend = await http.post(hosted.url + "/memory/experience", content=content)

    assert (by_server.status_code, by_server.json()["error_code"]) == (413, "PAYLOAD_TOO_LARGE")
    assert (by_backend.status_code, by_backend.json()["errorCode"]) == (413, "PAYLOAD_TOO_LARGE")


async def test_a_client_that_waits_to_be_asked_for_its_body_is_asked(
    direct: CortexServer, event: Event
) -> None:
    headers = {**HEADERS, "Expect": "100-continue"}
    async with httpx.AsyncClient(base_url=direct.url, headers=headers) as http:
        assert (await http.post("/v1/experience", json=event())).status_code == 202


@pytest.mark.parametrize(
    "garbage", [b"\x16\x03\x01\x02\x00\x01\x00\x01", b"hello\r\n\r\n", b"GET / HTTP/1.1\r\nHo"]
)
async def test_a_peer_that_speaks_no_http_is_dropped_and_others_are_served(
    direct: CortexServer, garbage: bytes
) -> None:
    host, port = direct.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(garbage)
    writer.write_eof()

    assert await asyncio.wait_for(reader.read(), 5) == b""
    writer.close()
    async with httpx.AsyncClient(base_url=direct.url, headers=HEADERS) as http:
        assert (await http.get("/v1/admin/health")).status_code == 200


async def test_a_held_request_does_not_keep_the_server_from_closing(direct: CortexServer) -> None:
    direct.knobs.listing_delay = 3600
    async with httpx.AsyncClient(base_url=direct.url, headers=HEADERS, timeout=None) as http:
        held = asyncio.create_task(http.get("/v1/events", params={"scope": NOTES}))
        await wait_until(lambda: direct.seen.listings_in_flight == 1)

        await asyncio.wait_for(direct.aclose(), 5)

        with pytest.raises(httpx.TransportError):
            await held


async def test_a_manual_clock_stands_still_and_a_real_one_runs_and_both_go_forward() -> None:
    manual = ManualClock()
    async with cortex_server(clock=manual) as still, cortex_server() as running:
        assert still.clock is manual
        assert still.clock.now().isoformat() == "2026-09-02T00:00:00+00:00"
        before = running.clock.seconds()
        await asyncio.sleep(0.01)
        assert 0 < before < running.clock.seconds() < 60

        for server in (still, running):
            server.clock.advance(3600)

        assert still.clock.now().isoformat() == "2026-09-02T01:00:00+00:00"
        assert running.clock.now().isoformat().startswith("2026-09-02T01:0")


async def test_a_clock_cannot_go_back() -> None:
    with pytest.raises(ValueError, match="cannot go back by 1 s"):
        ManualClock().advance(-1)


async def test_a_lookup_among_many_events_stays_quick(direct: CortexServer, event: Event) -> None:
    for number in range(20_000):
        direct.log.append(event(f"note {number}", labels=[f"tm:i:{number}"]))
    params = {"scope": NOTES, "labels": "tm:i:7,tm:i:19999"}
    async with httpx.AsyncClient(base_url=direct.url, headers=HEADERS) as http:
        started = time.perf_counter()
        pages = [(await http.get("/v1/events", params=params)).json() for _ in range(50)]
        took = time.perf_counter() - started

    assert [item["id"] for item in pages[0]["items"]] == ["evt_20000", "evt_20000", "evt_8", "evt_8"]
    assert took < 5  # 0.1 s on a calm machine
