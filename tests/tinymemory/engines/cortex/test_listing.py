"""§9 items 97 to 108: pages, cursors, items by id, counts."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tinymemory import (
    Conversation,
    Document,
    EngineError,
    ExploreRequest,
    Facet,
    FetchRequest,
    ForgetTarget,
    GetRequest,
    InvalidRequestError,
    Learning,
    ListRequest,
    MemoryMeta,
    MetaFilter,
    Reach,
    Turn,
)
from tinymemory.engine import Item
from tinymemory.engines.cortex import CortexEngine
from tinymemory.engines.cortex.cursors import ListCursor, fetch_cursor, parse_fetch_cursor
from tinymemory.engines.cortex.surface import Surface
from tinymemory.items import DocumentBody, Role
from tinymemory.query import Hit
from tinymemory.testing import CortexServer, raw

Connect = Callable[..., CortexEngine]


def learning(text: str, **meta: Any) -> Learning:
    return Learning(text=text, meta=MemoryMeta.model_validate(meta))


def conversation(*texts: str, **meta: Any) -> Conversation:
    turns = tuple(Turn(role=Role.USER, text=text) for text in texts)
    return Conversation(turns=turns, meta=MemoryMeta.model_validate(meta))


def mixed() -> list[Item]:
    """Twenty items of every kind at three places; conversations of one and of several turns."""
    items: list[Item] = []
    for number in range(5):
        place = ("root", "agent:a", "team:t/agent:b")[number % 3]
        items += [
            learning(f"learning {number}", namespace=place, tags=["even"] if number % 2 == 0 else []),
            Document(title=f"Title {number}", body=DocumentBody(text=f"document {number}")),
            conversation(f"said {number}", namespace=place, thread_id=f"t{number}"),
            conversation(f"first {number}", f"second {number}", namespace=place, agent_id="writer"),
        ]
    return items


async def all_pages(engine: CortexEngine, limit: int, **fields: Any) -> list[Hit]:
    found: list[Hit] = []
    cursor: str | None = None
    while True:
        page = await engine.list(
            ListRequest(limit=limit, cursor=cursor, filter=MetaFilter.model_validate(fields))
        )
        assert len(page.items) <= limit
        found += page.items
        cursor = page.next_cursor
        if cursor is None:
            return found


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 50])
async def test_pages_of_any_size_give_the_same_items_each_once(
    engine: CortexEngine, server: CortexServer, limit: int
) -> None:
    # §9 item 97
    items = mixed()
    await engine.store_many(items)

    found = await all_pages(engine, limit)

    assert sorted(hit.id for hit in found) == sorted(item.fingerprint() for item in items)
    assert {hit.id: hit.text for hit in found} == {item.fingerprint(): item.render_text() for item in items}
    kinds = [hit.kind for hit in found]
    assert kinds == sorted(kinds, key=["document", "conversation", "learning"].index)
    assert all(hit.score == 0.0 for hit in found)


async def test_a_page_border_between_the_two_copies_of_an_event_loses_and_repeats_nothing(
    engine: CortexEngine, server: CortexServer, surface: Surface, monkeypatch: pytest.MonkeyPatch
) -> None:
    # §9 item 98
    items = [learning(f"fact {number}") for number in range(7)]
    await engine.store_many(items)
    # Pages of three copies: every second border parts a pair.
    monkeypatch.setattr("tinymemory.engines.cortex.log.PAGE_SIZE", 3)

    for limit in (1, 2, 3, 10):
        found = await all_pages(engine, limit)
        assert [hit.text for hit in found] == [f"fact {number}" for number in reversed(range(7))]


async def test_a_conversation_of_150_turns_lists_once_and_whole(engine: CortexEngine) -> None:
    # §9 item 99
    item = conversation(*(f"turn {number}" for number in range(150)))
    await engine.store(item)

    for limit in (1, 5):
        [hit] = await all_pages(engine, limit)
        assert hit.text == item.render_text()


async def test_a_cursor_survives_a_scope_that_appears_and_one_that_vanishes(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 100
    for place in ("agent:b", "agent:d", "agent:f"):
        await engine.store_many([learning(f"{place} {number}", namespace=place) for number in range(2)])
    first = await engine.list(ListRequest(limit=3))
    assert [hit.text for hit in first.items] == ["agent:b 1", "agent:b 0", "agent:d 1"]

    await engine.store(learning("agent:e", namespace="agent:e"))
    await engine.store(learning("agent:a", namespace="agent:a"))
    rest = await engine.list(ListRequest(limit=9, cursor=first.next_cursor))
    assert [hit.text for hit in rest.items] == ["agent:d 0", "agent:e", "agent:f 1", "agent:f 0"]

    gone = next(path for path in server.log.scopes() if "agent:d" in path)
    server.log.drop_scope(gone)
    rest = await engine.list(ListRequest(limit=9, cursor=first.next_cursor))
    assert [hit.text for hit in rest.items] == ["agent:e", "agent:f 1", "agent:f 0"]


def test_cursors_are_spelt_like_this() -> None:
    # §9 item 101
    spelt = (
        "l7b2273636f7065223a226170703a74696e796d656d6f72792f6170703a646f63756d656e7473222c22656e67696e65223a2"
        "23430222c226f6666736574223a332c226c617374223a226576745f37227d"
    )
    cursor = ListCursor("app:tinymemory/app:documents", "40", 3, "evt_7")

    assert str(cursor) == spelt
    assert ListCursor.parse(spelt) == cursor
    assert fetch_cursor(10) == "f7b226f6666736574223a31307d"
    assert parse_fetch_cursor("f7b226f6666736574223a31307d") == 10
    assert ListCursor.parse("l" + b'{"offset":0,"new":[]}'.hex()) == ListCursor()


@pytest.mark.parametrize(
    "cursor",
    [
        "", "l", "f", "x", "7b7d", "l7", "lzz", "l" + b"[]".hex(), "l" + b"{".hex(), "l" + b"{}".hex(),
        "l" + b'{"offset":-1}'.hex(), "l" + b'{"offset":1.5}'.hex(), "l" + b'{"offset":true}'.hex(),
        "l" + b'{"offset":"1"}'.hex(), "l" + b'{"offset":0,"scope":7}'.hex(),
        "l" + b'{"offset":0,"engine":[]}'.hex(), "l" + b'{"offset":0,"scope":"app:x/app:documents"}'.hex(),
        "l" + b"\xff".hex(), "l" + (b"[" * 9999).hex(),
    ],
)  # fmt: skip
async def test_a_cursor_that_is_none_is_an_invalid_request(engine: CortexEngine, cursor: str) -> None:
    # §9 item 101
    with pytest.raises(InvalidRequestError, match="cursor"):
        await engine.list(ListRequest(cursor=cursor))
    with pytest.raises(InvalidRequestError, match="cursor"):
        await engine.fetch(FetchRequest(query="tides", cursor=cursor))
    with pytest.raises(InvalidRequestError, match="cursor"):
        await engine.fetch(FetchRequest(query="tides", cursor=str(ListCursor())))
    with pytest.raises(InvalidRequestError, match="cursor"):
        await engine.list(ListRequest(cursor=fetch_cursor(0)))


@pytest.mark.parametrize(
    ("wanted", "label"),
    [
        ({"thread_id": "t1", "source_id": "s"}, "tm%3At%3A"),
        ({"thread_id": "t1", "repo": "r"}, "tm%3At%3A"),
        ({"source_id": "s", "agent_id": "a"}, "tm%3As%3A"),
        ({"repo": "r", "workspace": "w"}, "tm%3Ar%3A"),
        ({"workspace": "w", "agent_id": "a"}, "tm%3Aw%3A"),
        ({"agent_id": "a", "language": "en"}, "tm%3Aa%3A"),
        ({"language": "en", "sources": ["file"]}, "tm%3Al%3A"),
        ({"sources": ["file", "rss"]}, "tm%3Ak%3A3b9c358f36f0a31b%2Ctm%3Ak%3Ac6cc42837ed0a804"),
        ({"commit": "c", "url": "u", "tags_any": ["x"], "folder": "/f"}, None),
    ],
)
async def test_a_filter_with_a_labelled_field_narrows_the_request_and_the_full_filter_still_decides(
    engine: CortexEngine, server: CortexServer, wanted: dict[str, Any], label: str | None
) -> None:
    # §9 item 102
    meta: dict[str, Any] = {
        "thread_id": "t1", "repo": "r", "workspace": "w", "agent_id": "a", "language": "en", "commit": "c",
        "url": "u", "tags": ["x"], "folder": "/f", "source": {"kind": "file", "id": "s"},
    }  # fmt: skip
    await engine.store_many(
        [learning("all of it", **meta), learning("without tags", **(meta | {"tags": [], "repo": "other"}))]
    )
    server.seen.clear()

    listed = await all_pages(engine, 50, **(wanted | {"tags_any": ["x"]}))
    fetched = (await engine.fetch(FetchRequest(query="all", filter=MetaFilter(**wanted)))).hits

    assert [hit.text for hit in listed] == ["all of it"]
    assert "all of it" in [hit.text for hit in fetched]
    listings = [request for request in server.seen.requests if "events?" in request]
    assert all(
        (label is None and "labels=" not in request) or (label or "") in request for request in listings
    )
    assert all(request.count("labels=") <= 1 for request in listings)
    sent = [body.get("filters") for body in server.seen.recalls]
    assert all((filters is None) == (label is None) for filters in sent)


async def test_a_digest_collision_costs_a_row_and_never_a_wrong_item(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 103
    wanted, other = learning("the wanted one"), learning("another")
    await engine.store_many([wanted, other])
    body = {
        "scope": "app:tinymemory/app:learnings",
        "modality": "observation",
        "content": {"kind": "message", "role": "user", "text": "another"},
        "context": {"labels": [_item_label(wanted), *_envelope_labels(other)]},
    }
    server.log.append(body)

    [hit] = await engine.get(GetRequest(ids=(wanted.fingerprint(),)))

    assert hit.text == "the wanted one"
    assert (await engine.forget(ForgetTarget.ids([wanted.fingerprint()]))).forgotten == 1
    assert [len(body["selector"]["memory_ids"]) for body in server.seen.forgets] == [1]
    assert [hit.text for hit in await all_pages(engine, 5)] == ["another"]


def _item_label(item: Item) -> str:
    from tinymemory.engines.cortex.labels import item_label

    return item_label(item.fingerprint())


def _envelope_labels(item: Item) -> list[str]:
    from tinymemory.engines.cortex.layout import lay_out

    return [label for label in lay_out(item).events[0].labels if label.startswith("tm:e:")]


async def test_an_item_in_the_scope_of_another_kind_is_ignored(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 51
    stray = learning("tide")
    await engine.store(conversation("the tide itself"))
    body = {
        "scope": "app:tinymemory/app:conversations",
        "content": {"kind": "message", "role": "user", "text": "tide"},
        "context": {"labels": [_item_label(stray), *_envelope_labels(stray)]},
    }
    server.log.append(body)

    assert [hit.text for hit in await all_pages(engine, 5)] == ["user: the tide itself"]
    fetched = await engine.fetch(FetchRequest(query="tide"))
    assert [hit.text for hit in fetched.hits] == ["user: the tide itself"]
    assert await engine.get(GetRequest(ids=(stray.fingerprint(),))) == []
    assert (await engine.explore(ExploreRequest(facet=Facet.KIND))).total == 1
    assert (await engine.forget(ForgetTarget.ids([stray.fingerprint()]))).forgotten == 0


async def test_a_listing_that_does_not_advance_is_an_engine_error(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 104
    await engine.store_many([learning(f"fact {number}") for number in range(99)])
    await engine.store_many([learning(f"fact {number}") for number in range(99, 150)])
    server.knobs.stuck_cursor = True

    with pytest.raises(EngineError, match="does not advance"):
        await engine.list(ListRequest(limit=500))
    with pytest.raises(EngineError, match="does not advance"):
        await engine.get(
            GetRequest(ids=tuple(learning(f"fact {number}").fingerprint() for number in range(150)))
        )


async def test_a_listing_that_never_ends_is_an_engine_error(
    engine: CortexEngine, server: CortexServer, surface: Surface
) -> None:
    # §9 item 104
    server.knobs.endless_listing = True
    root = MetaFilter(reach=Reach(), kinds=("learning",))  # pyright: ignore[reportArgumentType]  # its text is read

    with pytest.raises(EngineError, match="exceeded 500 pages"):
        await engine.list(ListRequest(filter=root, limit=5000))
    assert server.seen.count(f"GET /{surface.events}") == 501

    page = await engine.explore(ExploreRequest(facet=Facet.KIND, filter=root))
    assert page.truncated
    assert server.seen.count(f"GET /{surface.events}") == 1001


async def test_many_empty_registered_scopes_do_not_exhaust_the_page_budget(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 105
    server.knobs.padding_scopes = 600
    await engine.store(learning("at the end", namespace="user:zoe"))

    assert [hit.text for hit in await all_pages(engine, 5)] == ["at the end"]


async def test_get_answers_in_the_order_asked_over_several_scopes(engine: CortexEngine) -> None:
    # §9 item 106
    items = [learning("a", namespace="agent:a"), conversation("b", "c", namespace="team:t"), learning("root")]
    await engine.store_many(items)
    ids = [item.fingerprint() for item in items]

    everything = await engine.get(GetRequest(ids=(ids[2], "f" * 40, ids[0], ids[1], ids[2])))
    confined = await engine.get(GetRequest(ids=tuple(ids), reach=Reach.exact("agent:a")))

    assert [hit.id for hit in everything] == [ids[2], ids[0], ids[1]]
    assert [hit.id for hit in confined] == [ids[0]]
    assert all(hit.score == 0.0 for hit in everything)


@pytest.mark.parametrize("facet", list(Facet))
async def test_explore_counts_every_facet_as_a_plain_count_over_the_items_would(
    engine: CortexEngine, server: CortexServer, surface: Surface, facet: Facet
) -> None:
    # §9 item 107
    await engine.store_many(mixed())
    listed = await all_pages(engine, 50)
    values = [facet.values(hit.kind, hit.meta) for hit in listed]
    counts = Counter(value for found in values for value in found)
    server.seen.clear()

    page = await engine.explore(ExploreRequest(facet=facet, limit=500))

    assert {bucket.value: bucket.count for bucket in page.buckets} == dict(counts)
    assert [bucket.count for bucket in page.buckets] == sorted(counts.values(), reverse=True)
    assert (page.total, page.missing, page.truncated) == (
        len(listed),
        sum(not found for found in values),
        False,
    )
    assert not any("labels=" in request for request in server.seen.requests)
    assert server.seen.count(f"GET /{surface.events}") == len(set(server.seen.requests)) - 1


async def test_explore_stops_at_its_scan_limit_and_says_truncated(engine: CortexEngine) -> None:
    # §9 item 108
    await engine.store_many(mixed())

    cut = await engine.explore(ExploreRequest(facet=Facet.KIND, scan_limit=7))
    exact = await engine.explore(ExploreRequest(facet=Facet.KIND, scan_limit=20))

    assert (cut.total, cut.truncated) == (7, True)
    assert [(bucket.value, bucket.count) for bucket in cut.buckets] == [("document", 5), ("conversation", 2)]
    assert (exact.total, exact.truncated) == (20, False)


async def test_explore_reads_no_further_than_its_scan_limit(
    engine: CortexEngine, server: CortexServer, surface: Surface
) -> None:
    # §9 item 108
    root = MetaFilter(reach=Reach(), kinds=("conversation",))  # pyright: ignore[reportArgumentType]  # its text is read
    await engine.store(conversation(*(f"turn {number}" for number in range(150))))
    await engine.store_many([conversation(f"said {number}") for number in range(60)])
    server.seen.clear()

    page = await engine.explore(ExploreRequest(facet=Facet.KIND, scan_limit=20, filter=root))

    assert (page.total, page.truncated) == (20, True)
    assert server.seen.count(f"GET /{surface.events}") == 1


async def test_events_without_an_id_or_a_text_are_stepped_over(
    engine: CortexEngine, server: CortexServer, surface: Surface
) -> None:
    # §9 item 51
    await engine.store(learning("real"))
    junk: list[Any] = [
        None,
        7,
        {},
        {"id": 7},
        {"id": "e", "content": {"text": None}},
        {"id": "e", "content": "x"},
    ]
    page = {"items": junk, "has_more": True, "next_cursor": "0"}
    answer = raw.json_answer({**page, "success": True, "data": page})
    server.knobs.raw_answers = {f"GET /{surface.events}": [answer]}

    assert [hit.text for hit in await all_pages(engine, 10)] == ["real"]
