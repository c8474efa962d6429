"""What a listing of a scope's events shows, and how it pages."""

from collections.abc import Callable
from typing import Any

import httpx

from tinymemory.testing import CortexServer

Event = Callable[..., dict[str, Any]]
NOTES = "app:tinymemory/app:learnings"


async def listed(cortex: httpx.AsyncClient, **params: str) -> dict[str, Any]:
    answer = await cortex.get("/v1/events", params={"scope": NOTES, **params})
    assert answer.status_code == 200, answer.text
    return answer.json()


def ids(page: dict[str, Any]) -> list[str]:
    return [item["id"] for item in page["items"]]


async def test_newest_comes_first_and_every_event_twice_in_a_row(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event
) -> None:
    direct.log.append(event("one"))
    direct.log.append(event("two"))

    page = await listed(cortex)

    assert ids(page) == ["evt_2", "evt_2", "evt_1", "evt_1"]
    assert page["has_more"] is False
    assert isinstance(page["next_cursor"], str)


async def test_limit_and_cursor_count_the_copies(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event
) -> None:
    for text in ("one", "two"):
        direct.log.append(event(text))

    first = await listed(cortex, limit="3")
    second = await listed(cortex, limit="3", cursor=first["next_cursor"])

    assert (ids(first), first["has_more"], first["next_cursor"]) == (["evt_2", "evt_2", "evt_1"], True, "3")
    assert (ids(second), second["has_more"], second["next_cursor"]) == (["evt_1"], False, "4")


async def test_the_default_limit_is_50_copies(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event
) -> None:
    for number in range(26):
        direct.log.append(event(f"note {number}"))

    page = await listed(cortex)

    assert len(page["items"]) == 50
    assert page["has_more"] is True


async def test_an_event_shows_its_text_role_labels_and_dates(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event
) -> None:
    direct.log.append(
        event("hi", role="tool", labels=["a"], context={"observed_at": "2026-01-02T03:04:05+00:00"})
    )

    assert (await listed(cortex))["items"][0] == {
        "id": "evt_1",
        "scope": NOTES,
        "modality": "observation",
        "content": {"kind": "message", "role": "tool", "text": "hi"},
        "context": {
            "labels": ["a"],
            "observed_at": "2026-01-02T03:04:05+00:00",
            "recorded_at": "2026-09-02T00:00:00+00:00",
        },
    }


async def test_only_the_exact_scope_is_listed(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event
) -> None:
    direct.log.append(event(scope="app:tinymemory"))
    direct.log.append(event(scope=NOTES + "/agent:a"))

    assert ids(await listed(cortex)) == []


async def test_labels_are_any_of_split_at_commas_blanks_dropped(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event
) -> None:
    for labels in (["a"], ["b", "c"], ["d"]):
        direct.log.append(event(labels=labels))

    assert ids(await listed(cortex, labels="a, ,c,")) == ["evt_2", "evt_2", "evt_1", "evt_1"]
    assert ids(await listed(cortex, labels="nobody")) == []
    assert len(ids(await listed(cortex, labels=","))) == 6


async def test_unknown_parameters_are_ignored_and_unparsable_ones_are_defaults(
    direct: CortexServer, cortex: httpx.AsyncClient, event: Event
) -> None:
    direct.log.append(event())

    assert len(ids(await listed(cortex, curser="2", limit="many", cursor="-1"))) == 2


async def test_a_listing_without_a_scope_is_refused(cortex: httpx.AsyncClient) -> None:
    answer = await cortex.get("/v1/events")

    assert (answer.status_code, answer.json()["error_code"]) == (400, "BAD_REQUEST")
