"""§9 item 153: whatever a server answers on whatever route, a call ends in a result or a library error."""

import asyncio
import copy
import json
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from datetime import date
from typing import Any
from urllib.parse import parse_qs

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tinymemory import (
    BeliefsRequest,
    ConsolidateRequest,
    Conversation,
    Document,
    ExploreRequest,
    Facet,
    FetchRequest,
    ForgetTarget,
    GetRequest,
    Learning,
    ListRequest,
    MemoryMeta,
    MetaFilter,
    Reach,
    RecallRequest,
    TimeHint,
    TinyMemoryError,
    Turn,
)
from tinymemory.engine import Item, WaitFor
from tinymemory.engines.cortex import CortexEngine, Timing
from tinymemory.engines.cortex.beliefs import belief_hits, most_confident
from tinymemory.engines.cortex.labels import envelope_labels
from tinymemory.engines.cortex.layout import lay_out
from tinymemory.engines.cortex.merging import Ranked, lifted
from tinymemory.engines.cortex.reader import Stored
from tinymemory.engines.cortex.scope import Scope
from tinymemory.engines.cortex.selection import Selection
from tinymemory.engines.cortex.stored import RawEvent, event_hit, raw_event, whole_hit
from tinymemory.engines.cortex.surface import DIRECT, HOSTED, Surface
from tinymemory.items import DocumentBody, Role
from tinymemory.meta import ToolCallRef
from tinymemory.testing import CortexServer, RawAnswer

Connect = Callable[..., CortexEngine]
Json = dict[str, Any]
TOKEN = "SKLIVE0123456789"
DAY = date(2026, 1, 2)


def hasty() -> Timing:
    """No real second passes: how often a call asks depends on the answers alone."""
    slept = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal slept
        slept += seconds
        await asyncio.sleep(0)

    return Timing(
        backoff=0.0,
        poll_gap=1.0,
        poll_gap_cap=1.0,
        visibility_budget=0.0,
        settle_budget=5.0,
        pause_cap=0.0,
        clock=lambda: slept,
        sleep=sleep,
    )


ENDLESS = 60
"""After so many requests of one call its answers are valid, so that the call comes to its end."""

META = MemoryMeta.model_validate(
    {
        "workspace": "/home/ann",
        "folder": "/home/ann/docs",
        "file_path": "/home/ann/docs/plan.md",
        "language": "en",
        "repo": "acme/x",
        "commit": "c0ffee",
        "url": "https://example.com",
        "thread_id": "thread-1",
        "turns": {"first": 0, "last": 1},
        "agent_id": "ann",
        "source": {"kind": "conversation", "id": "desk"},
        "tags": ["tide"],
        "observed_at": "2026-01-02T03:04:05Z",
        "derive": True,
    }
)
TALK = Conversation(
    turns=(
        Turn(role=Role.USER, text="when is the tide"),
        Turn(role=Role.TOOL, text="21:40", tool_calls=(ToolCallRef(name="tides", id="c1"),)),
    ),
    meta=META,
)
SAID = Conversation(turns=(Turn(role=Role.USER, text="tide"),))
GUIDE = Document(title="Tide", body=DocumentBody(text="# One\na\n\f# Two\nb\n"), mime="text/plain", meta=META)
NOTE = Document(body=DocumentBody(text="tide"))
FACT = Learning(text="tide", confidence=0.5, evidence="moon", meta=META)
STORED: list[Item] = [TALK, SAID, GUIDE, NOTE, FACT]
IDS = tuple(item.fingerprint() for item in STORED)


def events_of(item: Item) -> list[Json]:
    """An item's events, with the envelope still apart, so that it can be spoilt as well."""
    found: list[Json] = []
    for event in lay_out(item, target=0).events:
        envelope = RawEvent("evt", event.text, event.labels).envelope
        assert envelope is not None
        for written in ("v3", "v2"):
            text = event.text if written == "v3" else ""
            found.append(
                {
                    "id": f"evt_{len(found)}_{item.fingerprint()}",
                    "scope": event.scope.path,
                    "content": {"role": "user", "text": text},
                    "context": {"labels": [label for label in event.labels if "tm:e:" not in label]},
                    written: json.loads(envelope.json_v3() if written == "v3" else envelope.json_v2()),
                }
            )
    return found


EVENTS = [event for item in STORED for event in events_of(item)]
BELIEFS: list[Json] = [
    {
        "id": "b1",
        "scope": "org:t1/app:tinymemory/app:learnings",
        "stance": "contested",
        "confidence": 0.9,
        "claim": {"subject": {"name": "ann"}, "predicate": "lives_in", "object": {"value": "Vienna"}},
        "valid_from": "2026-01-02T03:04:05Z",
        "updated_at": "2026-01-02T03:04:05Z",
        "created_at": "2026-01-02T03:04:05Z",
    },
    {"id": "b2", "scope": "app:tinymemory/agent:a/app:documents", "claim": {"predicate": 1, "object": True}},
]


def valid(surface: Surface, request: httpx.Request) -> Any:
    """What a sound server answers, envelopes apart."""
    route = request.url.path.lstrip("/")
    if route == surface.events:
        is_first = b"cursor=" not in request.url.query
        written = {**copy.deepcopy(EVENTS[0]), "id": "evt_new"}
        more = {"has_more": is_first, "next_cursor": "400"}
        return {"items": [event for one in (written, *EVENTS) for event in (one, one)], **more}
    if route == surface.scopes:
        paths = ("app:tinymemory/app:learnings", "org:t1/app:tinymemory/agent:a/app:documents")
        return {"items": [{"path": paths[0]}, paths[1]], "scopes": []}
    if route == surface.recall:
        return {
            "pack_id": "pack_1",
            "layers": {"events": EVENTS, "beliefs": BELIEFS},
            "warnings": ["slow", "parent_pack_unranked_sample: 3"],
            "diagnostics": {"knapsack_evictions": 1},
            "provenance": {"trail": [{"context_contributors": [{"evicted_from_layers": True}]}]},
        }
    if route == surface.append_many:
        count = len(json.loads(request.content)["items"])
        return {"results": [{"event_id": "evt_new", "replayed_from_idempotency": False}] * count}
    answers: dict[str | None, Any] = {
        surface.append: {"event_id": "evt_new", "replayed_from_idempotency": False},
        surface.answer: {"answer": "at ten", "diagnostics": {"answer_model": "m"}},
        surface.forget: {"deleted": {"events": 1}, "requested": 1},
        surface.build: {"built": 1, "job_id": "", "build_id": None, "id": "j1", "reasons": {}},
        surface.beliefs: {"items": BELIEFS, "has_more": False},
        surface.health: {"status": "healthy"},
        surface.version: {"version": "v0.10.5", "capabilities": ["refers_to_v1"]},
        surface.whoami: {"caller": "user:local"},
    }
    return answers[route]


def rendered(value: Any) -> Any:
    """An answer as it is sent: every envelope in the labels or in the text of its event."""
    if isinstance(value, list):
        return [rendered(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(value, dict):
        return value
    found: Json = {name: rendered(item) for name, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    v2, v3 = found.pop("v2", None), found.pop("v3", None)
    if v2 is not None and isinstance(found.get("content"), dict):
        found["content"]["text"] = json.dumps(v2)
    context = found.get("context")
    if v3 is not None and isinstance(context, dict) and isinstance(context.get("labels"), list):  # pyright: ignore[reportUnknownMemberType]
        context["labels"] += envelope_labels(json.dumps(v3))
    return found


NAMES = sorted(
    {"success", "data", "error", "errorCode", "error_code", "message", "_partial", "scopes"}
    | {"id", "text", "content", "context", "labels", "claim", "name", "value", "path", "v2", "v3"}
)
LEAVES: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(
        [
            TOKEN, "", "\ud800", "\x00\n\u2028", 10**400, -1, 2**63, 1e308, "1e400", "tm:e:00:{",
            "tm:e:" + "9" * 5000, "app:tinymemory/app:learnings", "evt_new",
            "0001-01-01T00:00:00+23:00", "9999-12-31T23:59:59-23:00",
            "app:tinymemory/" + "agent:a/" * 9 + "app:documents", "[user] {}", "]", "2026-13-99",
        ]
    )
)  # fmt: skip
ANYTHING: st.SearchStrategy[Any] = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=12,
)


@st.composite
def spoilt(draw: st.DrawFn, answer: Any) -> Any:
    """A valid answer, one to three nodes of which are dropped, replaced, wrapped or repeated."""
    answer = copy.deepcopy(answer)
    for _ in range(draw(st.integers(1, 3))):
        node: Any = answer
        while isinstance(node, dict | list) and node:
            places: list[Any] = list(node) if isinstance(node, dict) else list(range(len(node)))  # pyright: ignore[reportUnknownArgumentType]
            place = draw(st.sampled_from(places))
            inner: Any = node[place]  # pyright: ignore[reportUnknownVariableType]
            if isinstance(inner, dict | list) and inner and draw(st.integers(0, 4)):
                node = inner  # pyright: ignore[reportUnknownVariableType]
                continue
            match draw(st.sampled_from(["drop", "replace", "replace", "retype", "wrap", "repeat"])):
                case "drop":
                    del node[place]
                case "replace":
                    node[place] = draw(ANYTHING)
                case "retype":
                    node[place] = (
                        {} if isinstance(inner, list) else [] if isinstance(inner, dict) else [inner]
                    )
                case "wrap":
                    node[place] = {"value": inner, "text": inner}
                case _:
                    node[place] = [inner, copy.deepcopy(inner)]  # pyright: ignore[reportUnknownArgumentType]
            break
    return answer


BODIES = st.binary(max_size=40) | st.sampled_from(
    [
        b"",
        b"[" * 100_000,
        b'{"items":' * 5000,
        b'{"a":"\\ud800"}',
        b"\xff\xfe",
        b"NaN",
        b"1" * 5000,
        b"<html>",
    ]
)
STATUSES = st.sampled_from([200] * 9 + [201, 202, 204, 301, 400, 401, 402, 404, 408, 409, 418, 422, 429, 503])


@st.composite
def malformed(draw: st.DrawFn, answer: Any, surface: Surface) -> httpx.Response:
    """An answer that is sound as often as not, so that a call gets as far as its last decoder."""
    status, value = 200, answer
    match draw(st.integers(0, 9)):
        case 0 | 1 | 2 | 3 | 4:
            pass
        case 5 | 6 | 7:
            value = draw(spoilt(answer))
        case 8:
            value, status = draw(ANYTHING), draw(STATUSES)
        case _:
            raw, status = draw(BODIES), draw(STATUSES)
            cut = json.dumps(rendered(answer)).encode()
            cut = cut[: draw(st.integers(0, len(cut)))]
            return httpx.Response(
                status, headers={"Retry-After": "7"}, content=draw(st.sampled_from([raw, cut]))
            )
    value = rendered(value)
    if surface.is_hosted:
        value = {"success": True, "data": value} if draw(st.integers(0, 9)) else draw(spoilt({"data": value}))
    return httpx.Response(status, content=json.dumps(value).encode())


CALLS: dict[str, Callable[[CortexEngine], Awaitable[object]]] = {
    "list": lambda engine: engine.list(ListRequest(limit=50)),
    "list filtered": lambda engine: engine.list(
        ListRequest.model_validate({"limit": 2, "filter": {"thread_id": "thread-1", "folder": "/home/ann"}})
    ),
    "get": lambda engine: engine.get(GetRequest(ids=IDS)),
    "fetch": lambda engine: engine.fetch(FetchRequest(query="tide", beliefs=3)),
    "fetch hinted": lambda engine: engine.fetch(
        FetchRequest(query="tide", refers_to=TimeHint(DAY, DAY, "America/New_York"))
    ),
    "recall": lambda engine: engine.recall(RecallRequest(question="tide", filter=MetaFilter(reach=Reach()))),
    "store": lambda engine: engine.store(Learning(text="ebb")),
    "store many": lambda engine: engine.store_many(
        [Learning(text="ebb"), Conversation(turns=(TALK.turns[0], SAID.turns[0]))]
    ),
    "store accepted": lambda engine: engine.store_with(SAID, WaitFor.ACCEPTED),
    "forget ids": lambda engine: engine.forget(ForgetTarget.ids(IDS)),
    "forget filter": lambda engine: engine.forget(ForgetTarget.filter(MetaFilter(agent_id="ann"))),
    "explore": lambda engine: engine.explore(ExploreRequest(facet=Facet.THREAD)),
    "consolidate": lambda engine: engine.consolidate(ConsolidateRequest(reach=Reach.subtree("root"))),
    "beliefs": lambda engine: engine.beliefs(BeliefsRequest()),
    "beliefs ranked": lambda engine: engine.beliefs(BeliefsRequest(query="tide")),
    "health": lambda engine: engine.health(),
}


@pytest.mark.parametrize("name", CALLS)
async def test_each_call_reads_what_a_sound_server_answers(
    connect: Connect, surface: Surface, name: str
) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        value = rendered(copy.deepcopy(valid(surface, request)))
        if "labels=" in str(request.url) and name.startswith("store"):
            labels = parse_qs(request.url.query.decode())["labels"][0].split(",")
            value["items"][0]["context"]["labels"] += labels
        return httpx.Response(200, json={"success": True, "data": value} if surface.is_hosted else value)

    async with connect("https://h", TOKEN, timing=hasty(), http=httpx.MockTransport(answer)) as engine:
        found: Any = await CALLS[name](engine)

    match name:
        case "list":
            assert {hit.id for hit in found.items} == set(IDS)
        case "list filtered":
            assert len(found.items) == 2
        case "get":
            assert {hit.text for hit in found} == {item.render_text() for item in STORED}
        case "fetch" | "fetch hinted":
            assert {hit.id for hit in found.hits} == set(IDS)
            assert len(found.beliefs) == (2 if name == "fetch" else 0)
        case "recall":
            assert found.answer == "at ten"
            assert {citation.id for citation in found.citations} == set(IDS)
        case "forget ids":
            assert found.forgotten == len(IDS)
        case "forget filter":
            assert found.forgotten == 3
        case "explore":
            assert found.total == len(IDS)
        case "beliefs" | "beliefs ranked":
            assert len(found) == (0 if surface.is_hosted and name == "beliefs" else 2)
        case "health":
            assert found.state == "ok"
        case _:
            assert found is not None


@pytest.mark.parametrize("wire", ["direct", "hosted"])
@pytest.mark.parametrize("name", CALLS)
@given(data=st.data())
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ],
)
def test_no_malformed_answer_on_any_route_raises_anything_but_a_library_error(
    wire: str, connect: Connect, name: str, data: st.DataObject
) -> None:
    # §9 items 9 and 153
    surface = HOSTED if wire == "hosted" else DIRECT
    asked, told = 0, list[str]()

    def answer(request: httpx.Request) -> httpx.Response:
        nonlocal asked
        asked += 1
        sound = valid(surface, request)
        if asked <= ENDLESS:
            return data.draw(malformed(sound, surface))
        value = rendered(copy.deepcopy(sound))
        return httpx.Response(200, json={"success": True, "data": value} if surface.is_hosted else value)

    async def one_call() -> None:
        async with connect("https://h", TOKEN, timing=hasty(), http=httpx.MockTransport(answer)) as engine:
            try:
                await CALLS[name](engine)
            except TinyMemoryError as error:
                told.append("".join(traceback.format_exception(error)) + repr(error))

    asyncio.run(one_call())
    assert TOKEN not in "".join(told)


ODD: list[Any] = [
    None, True, 0, -1, 1.5, 1e308, 10**400, "", "x", "7", "\ud800", [], {}, [None], {"a": None},
    "0001-01-01T00:00:00+23:00", "9999-12-31T23:59:59-23:00", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z",
]  # fmt: skip


def places(value: Any) -> Iterator[list[Any]]:
    """The way to every node below a value."""
    node: Any = value
    inside: Any = ()
    if isinstance(value, dict | list):
        inside = node.items() if isinstance(value, dict) else enumerate(node)
    for place, inner in inside:
        yield [place]
        yield from ([place, *rest] for rest in places(inner))


def each_spoilt(sound: Any) -> Iterator[Any]:
    """A value once for each of its nodes and each oddity: with that node gone, or with the oddity there."""
    for *way, last in places(sound):
        for odd in (..., *ODD):
            spoilt: Any = copy.deepcopy(sound)
            node: Any = spoilt
            for place in way:
                node = node[place]
            if odd is ...:
                del node[last]
            else:
                node[last] = odd
            yield spoilt


def test_events_and_beliefs_with_anything_in_any_place_are_read_or_skipped() -> None:
    # §9 item 153
    selection = Selection(
        MetaFilter.model_validate({"folder": "/home/ann", "observed_after": "2026-01-01T00:00:00Z"})
    )
    hint = TimeHint(DAY, DAY, "America/New_York")
    sound = [events_of(item)[0] for item in (TALK, GUIDE, FACT)] + [events_of(FACT)[1]]
    read = skipped = 0
    for answer in (rendered(spoilt) for event in sound for spoilt in each_spoilt(event)):
        event = raw_event(json.loads(json.dumps(answer)))
        envelope = None if event is None else event.envelope
        if event is None or envelope is None:
            skipped += 1
            continue
        read += 1
        selection.admits(envelope)
        assert event_hit(envelope).id == envelope.id
        assert whole_hit([envelope]) or envelope.chunk is not None
        scope = Scope(envelope.kind, envelope.meta.namespace)
        assert len(list(lifted([Ranked(scope, Stored(event.id, envelope))], hint))) == 1
    assert read > 100
    assert skipped > 1000

    spoilt = [belief for sound in BELIEFS for belief in each_spoilt(sound)]
    hits = belief_hits(spoilt, Reach())
    assert 0 < len(hits) < len(spoilt)
    assert most_confident([hits], 10)


@pytest.mark.parametrize(
    ("route", "name"),
    [
        ("append", "store"),
        ("append_many", "store many"),
        ("answer", "recall"),
        ("recall", "fetch"),
        ("events", "list"),
        ("scopes", "list"),
        ("forget", "forget filter"),
        ("build", "consolidate"),
        ("beliefs", "beliefs"),
        ("version", "fetch hinted"),
        ("whoami", "health"),
        ("health", "health"),
    ],
)
async def test_each_answer_with_anything_at_its_top_is_a_result_or_a_library_error(
    connect: Connect, surface: Surface, route: str, name: str
) -> None:
    # §9 item 153
    path: str | None = getattr(surface, route)
    if path is None:
        pytest.skip("the hosted wire has no such route")
    current: list[Any] = [None]
    reached = 0
    event = rendered({**EVENTS[0], "id": "evt_new"})
    other: Json = {
        surface.events: {"items": [event, event]},
        surface.scopes: {"items": ["app:tinymemory/app:learnings"]},
    }

    def answer(request: httpx.Request) -> httpx.Response:
        nonlocal reached
        if request.url.path == f"/{path}":
            reached += 1
            value = current[0]
        else:
            sound = other.get(request.url.path[1:]) or valid(surface, request)
            value = {"success": True, "data": sound} if surface.is_hosted else sound
        return httpx.Response(200, content=json.dumps(value).encode())

    few: dict[str, Any] = {
        "events": {"items": [], "has_more": True, "next_cursor": "400"},
        "scopes": {"items": [{"path": "app:tinymemory/app:learnings"}]},
        "append_many": {"results": [{"event_id": "e", "replayed_from_idempotency": False}] * 3},
    }
    small: Any = few.get(route) or valid(surface, httpx.Request("POST", f"https://h/{path}"))
    if route == "recall":
        small = {**small, "layers": {"events": [], "beliefs": []}}
    spoilt = [*ODD, *each_spoilt(small)]
    wrapped = [
        *({"success": True, "data": value} for value in spoilt),
        *each_spoilt({"success": True, "data": {}}),
    ]
    async with connect("https://h", TOKEN, timing=hasty(), http=httpx.MockTransport(answer)) as engine:
        for value in wrapped if surface.is_hosted else spoilt:
            current[0] = value
            engine._transport.actor.doubt()  # pyright: ignore[reportPrivateUsage]  # so that it is asked anew
            with suppress(TinyMemoryError):
                await CALLS[name](engine)

    assert reached


@pytest.mark.parametrize(
    "kind",
    [
        "truncated_json",
        "not_json",
        "wrong_types",
        "no_event_id",
        "no_envelope",
        "no_data",
        "success_false",
        "html_502",
        "close",
        "close_midway",
    ],
)
async def test_every_ready_made_answer_on_every_route_is_survived(
    server: CortexServer, connect: Connect, surface: Surface, kind: str
) -> None:
    # §9 item 153
    prefix = "/memory" if surface.is_hosted else "/v1"
    async with connect(server.url, timing=hasty()) as engine:
        for call in CALLS.values():
            server.knobs.raw_answers = {f"{method} {prefix}": [kind] * 99 for method in ("GET", "POST")}
            try:
                await call(engine)
            except TinyMemoryError:
                continue


@pytest.mark.parametrize(
    "body", [b'{"items": [{"id": "\\ud800", "content": {"text": "\\udfff"}}]}', b"\xef\xbb\xbf{}"]
)
async def test_half_a_character_in_an_answer_is_replaced(
    server: CortexServer, connect: Connect, surface: Surface, body: bytes
) -> None:
    # §9 item 153
    answer = RawAnswer(body=b'{"success": true, "data": ' + body.removeprefix(b"\xef\xbb\xbf") + b"}")
    server.knobs.raw_answers = {
        f"GET /{surface.events}": [answer if surface.is_hosted else RawAnswer(body=body)] * 9
    }

    async with connect(server.url) as engine:
        assert (await engine.list(ListRequest(filter=MetaFilter(reach=Reach())))).items == []


async def test_half_a_character_in_what_the_answer_route_says_is_replaced(
    server: CortexServer, connect: Connect, surface: Surface
) -> None:
    # §9 item 153
    said = {"answer": "half \ud83d of one"}
    body = json.dumps({"success": True, "data": said} if surface.is_hosted else said).encode()
    server.knobs.raw_answers = {f"POST /{surface.answer}": [RawAnswer(body=body)]}

    async with connect(server.url) as engine:
        await engine.store(FACT)
        assert (await engine.recall(RecallRequest(question="tide"))).answer == "half \ufffd of one"
