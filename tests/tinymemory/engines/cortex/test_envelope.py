"""§9 items 46 to 57 and 61: the layout, to the byte."""

import json
import random
from collections.abc import Callable
from datetime import UTC
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from tinymemory import (
    Conversation,
    Document,
    GetRequest,
    InvalidRequestError,
    ItemKind,
    Learning,
    ListRequest,
    MemoryMeta,
    MetaFilter,
    Turn,
)
from tinymemory.engine import Item
from tinymemory.engines.cortex import CortexEngine
from tinymemory.engines.cortex.digest import hex_digest, path_digests
from tinymemory.engines.cortex.envelope import Envelope, parse_envelope
from tinymemory.engines.cortex.labels import envelope_labels, joined_envelope, narrowing_labels
from tinymemory.engines.cortex.layout import Event, lay_out
from tinymemory.engines.cortex.stored import RawEvent, event_hit, whole_hit
from tinymemory.items import DocumentBody, LearningKind, Role, StoreItem, ToolCallRef
from tinymemory.meta import SourceKind, SourceRef
from tinymemory.redaction import redacted
from tinymemory.testing import CortexServer, raw

ITEMS: TypeAdapter[Item] = TypeAdapter(StoreItem)
A = (
    '{"type":"learning","text":"prefers window seats","kind":"preference","confidence":0.8,'
    '"meta":{"thread_id":"trip-7","source":{"kind":"conversation","id":"desk"}}}'
)


def item(text: str, **meta: Any) -> Item:
    fields = json.loads(text)
    fields["meta"] |= meta
    return ITEMS.validate_python(fields)


def example_a(**fields: Any) -> Item:
    return ITEMS.validate_python(json.loads(A) | fields)


def lookups(event: Event) -> list[str]:
    return [label for label in event.labels if not label.startswith("tm:e:")]


def parts(event: Event) -> list[int]:
    return [len(label.encode()) for label in event.labels if label.startswith("tm:e:")]


def envelope_text(event: Event) -> str | None:
    return joined_envelope(event.labels)


def as_raw(event: Event) -> RawEvent:
    return RawEvent("evt", event.text, event.labels)


def test_example_a_a_learning_at_the_root() -> None:
    # §9 item 46
    laid_out = lay_out(item(A))
    [event] = laid_out.events

    assert laid_out.id == "df37e2b4259d384f2be7313f328744d0007b59d0"
    assert laid_out.scope.path == "app:tinymemory/app:learnings"
    assert event.labels == (
        "tm:i:692db67e949089fb",
        "tm:t:f45f511c19a19719",
        "tm:s:49be417ad74080a0",
        "tm:k:8b34dbc2c05eb4d7",
        "kind:learning",
        'tm:e:00:{"v":3,"id":"df37e2b4259d384f2be7313f328744d0007b59d0","kind":"learning","text":"",'
        '"meta":{"thread_id":"trip-7","source":{"kind":"conversation","id":"desk"}},'
        '"learning_kind":"preference","confidence":0.8}',
    )
    assert event.key == "tm3:1d12e579df029b586095ca7a9ab40cf3464831308716890e7c3dcadf"
    body = json.loads(event.body)
    assert body.pop("idempotency_key") == event.key
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert len(canonical.encode()) == 524
    assert "tm3:" + hex_digest(canonical, 56) == event.key
    assert (body["modality"], body["content"]["role"]) == ("observation", "user")
    v3 = envelope_text(event)
    assert v3 is not None
    assert len(v3.encode()) == 204
    envelope = as_raw(event).envelope
    assert envelope is not None
    assert envelope.json_v2() == (
        '{"v":2,"id":"df37e2b4259d384f2be7313f328744d0007b59d0","kind":"learning",'
        '"text":"prefers window seats",'
        '"meta":{"thread_id":"trip-7","source":{"kind":"conversation","id":"desk"}},'
        '"learning_kind":"preference","confidence":0.8}'
    )
    assert len(envelope.json_v2().encode()) == 224


def test_example_a_observed_at_another_time_is_the_same_item_under_another_key() -> None:
    # §9 item 46
    laid_out = lay_out(item(A, observed_at="2026-01-01T00:00:00Z"))

    assert laid_out.id == "df37e2b4259d384f2be7313f328744d0007b59d0"
    assert laid_out.events[0].key == "tm3:b33d72670d60d0ce2f8f514d006e7c370f970f28b3c228d9530644b3"


def test_example_b_two_turns_from_a_channel_named_by_a_phone_number() -> None:
    # §9 item 46
    channel = "channel:whatsapp_+15550142377_+15550142377"
    laid_out = lay_out(
        item(
            json.dumps(
                {
                    "type": "conversation",
                    "turns": [
                        {
                            "role": "user",
                            "text": "when does the night train leave",
                            "at": "2026-01-02T03:04:05Z",
                        },
                        {
                            "role": "tool",
                            "text": '{"departs":"21:40"}',
                            "at": "2026-01-02T03:04:06.250Z",
                            "tool_calls": [{"name": "timetable", "id": "c1"}],
                        },
                    ],
                    "meta": {
                        "namespace": "team:acme/agent:planner",
                        "thread_id": channel,
                        "agent_id": "planner",
                        "source": {"kind": "conversation", "id": channel},
                    },
                }
            ),
            observed_at="2026-01-02T03:00:00Z",
        )
    )
    first, second = laid_out.events

    assert laid_out.id == "4209864504a0111eb415a4799247533541ada11f"
    assert laid_out.scope.path == "app:tinymemory/team:acme/agent:planner/app:conversations"
    for event in (first, second):
        assert lookups(event) == [
            "tm:i:4b8ef0b99e885937",
            "tm:t:7d95d228614f638d",
            "tm:s:7d95d228614f638d",
            "tm:a:244b8435061420f6",
            "tm:k:8b34dbc2c05eb4d7",
            "kind:conversation",
            "agent:planner",
        ]
    meta = (
        '"meta":{"namespace":"team:acme/agent:planner",'
        '"thread_id":"tm-redacted:3865328fbc60e581ac7a46f301dacfbd","agent_id":"planner",'
        '"source":{"kind":"conversation","id":"tm-redacted:3865328fbc60e581ac7a46f301dacfbd"},'
        '"observed_at":"2026-01-02T03:00:00Z"}'
    )
    head = '{"v":3,"id":"4209864504a0111eb415a4799247533541ada11f","kind":"conversation","text":"",' + meta
    assert envelope_text(first) == (
        head + ',"turn":{"index":0,"count":2,"role":"user","at":"2026-01-02T03:04:05Z"}}'
    )
    assert envelope_text(second) == (
        head + ',"turn":{"index":1,"count":2,"role":"tool","at":"2026-01-02T03:04:06.250Z",'
        '"tool_calls":[{"name":"timetable","id":"c1"}]}}'
    )
    assert (parts(first), parts(second)) == ([248, 175], [248, 225])
    assert first.labels[7].endswith(':{"kind":"conversat')
    assert first.key == "tm3:1ff55783289dfc910dcd620d4c56e3f4025a6cb31c42da2fbb01290a"
    assert second.key == "tm3:db297f3127b7efa4e2f809347f5b7f5e42d37479a2d58d948a2448a0"
    bodies = [json.loads(event.body) for event in (first, second)]
    assert [body["context"]["observed_at"] for body in bodies] == [
        "2026-01-02T03:04:05+00:00",
        "2026-01-02T03:04:06.250+00:00",
    ]
    assert "directives" not in bodies[0]
    assert bodies[1]["content"]["role"] == "tool"
    assert bodies[1]["directives"] == {"extract": []}
    assert narrowing_labels(MetaFilter(thread_id=channel)) == [
        "tm:t:3865328fbc60e581",
        "tm:t:7d95d228614f638d",
    ]


EXAMPLE_C = (
    '{"type":"document","title":"Fahrplan \u2013 Überblick","body":'
    '{"text":"The \\"night train\\" leaves at 21:40.\\nPlatform 7."},'
    '"mime":"text/markdown","meta":{"namespace":"source:notes","workspace":"/home/ann/trips",'
    '"folder":"/home/ann/trips/docs","file_path":"/home/ann/trips/docs/plan.md","language":"en",'
    '"repo":"acme/trips","source":{"kind":"folder","id":"notes"},"tags":["train","été"]}}'
)


def test_example_c_a_document_with_local_paths_and_other_than_ascii() -> None:
    # §9 item 46
    laid_out = lay_out(item(EXAMPLE_C, observed_at="2026-03-04T05:06:07Z"))
    [event] = laid_out.events

    assert laid_out.id == "6fae0b8deb3e25c6c66c81d73d5ed091a1b0b934"
    assert laid_out.scope.path == "app:tinymemory/source:notes/app:documents"
    assert lookups(event) == [
        "tm:i:c62a18b857663f02",
        "tm:s:ab5aa97074c454a0",
        "tm:r:eb5da5e0e9e57046",
        "tm:l:dbd3a49d0d906b4e",
        "tm:k:034a0062488256f1",
        "tm:w:9f068f017a8acdde",
        "kind:document",
        "file:plan.md",
    ]
    assert parts(event) == [248, 248, 248, 159]
    assert envelope_text(event) == (
        '{"v":3,"id":"6fae0b8deb3e25c6c66c81d73d5ed091a1b0b934","kind":"document","text":"","meta":'
        '{"namespace":"source:notes","file_path":"plan.md","language":"en","repo":"acme/trips","source":'
        '{"kind":"folder","id":"notes"},"tags":["train","été"],"observed_at":"2026-03-04T05:06:07Z"},'
        '"ws":"9f068f017a8acddefea299bd83fc60f5b746191e","fp":["e3b0c44298fc1c149afbf4c8996fb92427ae41e4",'
        '"2cc974af6afc822c42a4e914df05c697348b8042","b4d9dc52eecb56104e7ad0ef8a85ca97eed1d052",'
        '"9f068f017a8acddefea299bd83fc60f5b746191e","f04c66f9b948d33f7a82bc1ab1c570011d10f168",'
        '"cba0f5a3b43c62a2edf63a8fab65c8554d373a90"],"fd":["e3b0c44298fc1c149afbf4c8996fb92427ae41e4",'
        '"2cc974af6afc822c42a4e914df05c697348b8042","b4d9dc52eecb56104e7ad0ef8a85ca97eed1d052",'
        '"9f068f017a8acddefea299bd83fc60f5b746191e","f04c66f9b948d33f7a82bc1ab1c570011d10f168"],'
        '"title":"Fahrplan \u2013 Überblick","mime":"text/markdown"}'
    )
    envelope = as_raw(event).envelope
    assert envelope is not None
    assert len(envelope.json_v3().encode()) == 871
    assert len(envelope.json_v2().encode()) == 920
    assert event.key == "tm3:2c6f0caf02f40d3e6908e0e5163117802543c7b713d6ffd3437bd7d8"


def test_example_d_one_logged_turn() -> None:
    # §9 item 46
    thread = "thread-5c1f7a2e-93b4-4d08-a6c7-e2d41b0f9a63"
    laid_out = lay_out(
        Conversation(
            turns=(Turn(role=Role.ASSISTANT, text="Platform 7."),),
            meta=MemoryMeta.model_validate(
                {
                    "namespace": "agent:a1",
                    "thread_id": thread,
                    "turns": {"first": 1, "last": 1},
                    "agent_id": "a1",
                    "source": {"kind": "conversation", "id": thread},
                    "observed_at": "2026-09-15T09:01:00Z",
                }
            ),
        )
    )
    [event] = laid_out.events

    assert laid_out.id == "307f5c999b7064b8d8a42e509dd1f68f9e2930c3"
    assert lookups(event) == [
        "tm:i:163963355c6ef578",
        "tm:t:29685b208e37069b",
        "tm:s:29685b208e37069b",
        "tm:a:f55ff16f66f43360",
        "tm:k:8b34dbc2c05eb4d7",
        "kind:conversation",
        "agent:a1",
        f"thread:{thread}",
    ]
    assert parts(event) == [248, 159]
    assert event.key == "tm3:2a1d019ddad40a2f5e926a834d39405ec5180a1e97ebb02783a2dc1d"


def test_example_e_slices_end_at_the_border_of_a_character() -> None:
    # §9 items 46 and 53
    laid_out = lay_out(example_a(evidence="x" * 5 + "é" * 10))
    [event] = laid_out.events

    assert laid_out.id == "ee398594cf8c4cb6e08221db55e061de31b76bd5"
    assert parts(event) == [247, 12]
    assert event.key == "tm3:e50ba4cf9989d570bf001e5d5ee626856650449e378a3d28d9b3323b"


def test_example_e_the_65th_label_makes_it_v2() -> None:
    # §9 items 46 and 52
    [last] = lay_out(example_a(evidence="e" * 13_942)).events
    [first] = lay_out(example_a(evidence="e" * 13_943)).events
    assert (len(last.labels), last.text) == (64, "prefers window seats")
    assert (len(first.labels), first.text[:7]) == (4, '{"v":2,')

    laid_out = lay_out(example_a(evidence="e" * 16_000))
    [event] = laid_out.events
    assert laid_out.id == "b5e3d445fdde02e9ce1b0ad10b564a781bf89b93"
    assert len(event.text.encode()) == 16_238
    assert hex_digest(event.text, 64) == "3bae366c7654c5b4a93c5c947d5c20ff45b7cbd66332f8247d9b0164348d1c26"
    assert len(event.labels) == 4
    assert event.key == "tm3:90ede99afef14611499ac39c1fce9be5a1f79b81bd666263d85b14ff"


def test_the_small_vectors() -> None:
    # §9 item 46
    assert {kind.value: hex_digest(kind.value, 16) for kind in SourceKind} == {
        "folder": "034a0062488256f1",
        "file": "3b9c358f36f0a31b",
        "link": "b1b1bdb480c61d07",
        "github": "c0b0109d9439de57",
        "rss": "c6cc42837ed0a804",
        "composio": "64c1d2e9654377e5",
        "conversation": "8b34dbc2c05eb4d7",
        "agent": "d4f0bc5a29de06b5",
        "import": "d942f64886578d87",
    }
    assert redacted("+1 (555) 014-2377") == "tm-redacted:9a84ef98e8ce63c8cff2f9798a41300c"
    assert path_digests("docs/plan.md") == (
        "46b42b4229cd7a39c564e780bb665a8bde4fdf72",
        "61bf200863ca1adb54d7fa64bc1aafcf84547f3f",
    )
    assert path_digests("/a/b.txt") == (
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4",
        "6a50dc8584134c7de537c0052ff6d236bf874355",
        "3af167d37e3712f45bcc830edb5a2eb3d668398e",
    )
    ok = lay_out(Learning(text="ok", kind=LearningKind.FACT, confidence=1.0))
    assert ok.id == "5f4e5b513d9626367802277303ab4f012c696fda"
    assert ok.events[0].key == "tm3:24749ddb5d2fc1037b35c630d1d4807a0d017b8d11b341cd06d7248e"
    desk = SourceRef(kind=SourceKind.CONVERSATION, id="desk")
    platforms = lay_out(
        Document(
            title="Platforms",
            body="Night trains leave from platform 7.",  # pyright: ignore[reportArgumentType]  # a text is a body
            meta=MemoryMeta(source=desk, thread_id="trip-doc"),
        )
    )
    assert platforms.id == "0dcf3f3102144591bbeba839ce8c52339802d2e6"
    assert platforms.events[0].key == "tm3:1504ac65556aa54bab1ddc3d4cc35ea40d6223ff7cddc8535f302bdc"
    chat = lay_out(
        Conversation(
            turns=(
                Turn(role=Role.USER, text="which seat do I like"),
                Turn(role=Role.ASSISTANT, text="a window seat"),
                Turn(role=Role.USER, text="right, window"),
            ),
            meta=MemoryMeta(source=desk, thread_id="trip-chat"),
        )
    )
    assert chat.id == "51e555de8ab48d8fdd881bdec92aae75757154cb"
    assert [event.key for event in chat.events] == [
        "tm3:bd187d10afe8750f868c0f37661b3011f8f9216e774a6afba8d5479a",
        "tm3:e1d436b1d7cb4b78fe02cf23ac2fb0e5874d89b44f76dc2ea56ca053",
        "tm3:0781b877cbd525c97f093c09b36e54483b01831d188e0b755785742f",
    ]


@pytest.mark.parametrize(
    ("value", "spelt"),
    [
        (0.8, "0.8"),
        (1, "1.0"),
        (0, "0.0"),
        (0.123456789, "0.12345679"),
        (0.00001, "0.00001"),
        (2.5e-7, "2.5e-7"),
    ],
)
def test_a_confidence_is_spelt_as_its_shortest_float32(value: float, spelt: str) -> None:
    # §9 item 46
    [event] = lay_out(Learning(text="ok", confidence=value)).events

    assert (envelope_text(event) or "").endswith(f'"confidence":{spelt}}}')


# No lone surrogates: they are no text, and the models refuse them.
texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=300)
names = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
instants = st.none() | st.datetimes(timezones=st.just(UTC))
metas = st.builds(
    MemoryMeta,
    namespace=st.sampled_from(["root", "agent:a", "team:acme/agent:b", "ws:w/project:p"]),
    workspace=names,
    folder=names,
    file_path=names,
    language=names,
    repo=names,
    commit=names,
    url=names,
    thread_id=names,
    agent_id=names,
    source=st.builds(SourceRef, kind=st.sampled_from(SourceKind), id=names),
    tags=st.lists(texts, max_size=3).map(tuple),
    observed_at=instants,
    derive=st.none() | st.booleans(),
)
turns = st.builds(
    Turn,
    role=st.sampled_from(Role),
    text=texts,
    at=instants,
    tool_calls=st.lists(st.builds(ToolCallRef, name=texts, id=names), max_size=2).map(tuple),
)
items: st.SearchStrategy[Item] = st.one_of(
    st.builds(
        Learning,
        text=texts,
        learning_kind=st.sampled_from(LearningKind),
        confidence=st.floats(0, 1, width=32),
        evidence=names,
        meta=metas,
    ),
    st.builds(Document, title=names, body=st.builds(DocumentBody, text=texts), mime=names, meta=metas),
    st.builds(Conversation, turns=st.lists(turns, min_size=1, max_size=4).map(tuple), meta=metas),
)


@given(items, st.booleans())
def test_every_kind_of_item_round_trips_through_its_events(stored: Item, is_v2: bool) -> None:
    # §9 item 47
    envelopes: list[Envelope] = []
    for event in lay_out(stored).events:
        envelope = as_raw(event).envelope
        assert envelope is not None
        if is_v2:
            envelope = RawEvent("evt", envelope.json_v2(), event.labels[:1]).envelope
            assert envelope is not None
        envelopes.append(envelope)
    hit = whole_hit(envelopes)

    assert hit is not None
    assert hit.id == stored.fingerprint()
    assert hit.text == stored.render_text()
    assert hit.confidence == stored.confidence
    kept = {"namespace", "language", "repo", "commit", "url", "tags", "observed_at", "derive"}
    assert hit.meta.model_dump(include=kept) == stored.meta.model_dump(include=kept)
    assert hit.meta.thread_id == (stored.meta.thread_id and redacted(stored.meta.thread_id))


@given(texts, st.randoms(use_true_random=False))
def test_an_envelopes_parts_in_any_order_give_it_back(text: str, shuffled: random.Random) -> None:
    # §9 items 48 and 53
    json_text = Envelope(id="a" * 40, kind=ItemKind.LEARNING, meta=MemoryMeta(), evidence=text * 9).json_v3()
    labels = envelope_labels(json_text)
    assert all(len(label.encode()) <= 256 for label in labels)
    shuffled.shuffle(labels)

    assert joined_envelope(["kind:learning", *labels, "tm:i:0"]) == json_text


SPOILS: list[Callable[[list[str]], list[str]]] = [
    lambda labels: labels[:-1],
    lambda labels: labels[1:],
    lambda labels: [*labels, labels[0]],
    lambda labels: [*labels, "tm:e:00:again"],
    lambda labels: [*labels, "tm:e:7:gap"],
    lambda labels: [*labels, "tm:e:"],
    lambda labels: [*labels, "tm:e:xx:y"],
    lambda labels: [*labels, "tm:e:-1:y"],
    lambda labels: [*labels, "tm:e:٣:y"],
    lambda labels: [*labels, "tm:e:" + "9" * 5000 + ":y"],
    lambda labels: [*labels, "tm:e:02"],
    lambda labels: [label.replace('"v":3', '"v":4') for label in labels],
    lambda labels: [label.replace('"v":3', '"v":2') for label in labels],
    lambda labels: [label.replace('"v":3', '"v":"3"') for label in labels],
    lambda labels: [label.replace('"kind":"learning"', '"kind":"dream"') for label in labels],
    lambda labels: [label.replace('"meta":{', '"meta":{"tags":"x",') for label in labels],
    lambda labels: [label.replace('"meta":{', '"meta":{"namespace":"dept:x",') for label in labels],
]


@pytest.mark.parametrize("spoil", SPOILS)
def test_a_missing_repeated_or_malformed_part_makes_the_event_foreign_or_v2(
    spoil: Callable[[list[str]], list[str]],
) -> None:
    # §9 item 49
    [event] = lay_out(example_a(evidence="e" * 200)).events
    others = [label for label in event.labels if not label.startswith("tm:e:")]
    spoilt = spoil([label for label in event.labels if label.startswith("tm:e:")])

    assert RawEvent("evt", event.text, (*others, *spoilt)).envelope is None

    v2 = as_raw(event).envelope
    assert v2 is not None
    read = RawEvent("evt", v2.json_v2(), (*others, *spoilt)).envelope
    assert read is not None
    assert read.text == "prefers window seats"


def test_a_part_may_have_more_digits_and_unknown_members_are_skipped() -> None:
    # §9 item 49
    labels = ('tm:e:001:"meta":{"x":1},"new":[]}', 'tm:e:0:{"v":3,"id":"i","kind":"learning","text":"",')

    envelope = RawEvent("evt", "said", labels).envelope

    assert envelope is not None
    assert (envelope.id, envelope.text) == ("i", "said")
    assert envelope.meta == MemoryMeta()


def test_a_learning_without_a_kind_or_a_confidence_still_reads() -> None:
    # §9 item 47
    envelope = RawEvent("evt", '{"v":2,"id":"i","kind":"learning","text":"a","meta":{}}', ()).envelope

    assert envelope is not None
    assert whole_hit([envelope]) == event_hit(envelope)
    assert event_hit(envelope).confidence == 0.0


def test_a_v2_text_with_a_rendered_role_in_front_still_reads() -> None:
    # §9 item 50
    [event] = lay_out(example_a(evidence="e" * 16_000 + "[1] and [2] more")).events

    envelope = RawEvent("evt", f"[user] {event.text}", event.labels).envelope

    assert envelope is not None
    assert envelope.text == "prefers window seats"
    assert (envelope.evidence or "").endswith("[1] and [2] more")


FOREIGN: list[dict[str, Any]] = [
    {"text": "just words", "labels": []},
    {"text": "", "labels": ["tm:i:0123456789abcdef"]},
    {"text": "[user] words", "labels": []},
    {"text": '{"v":9,"id":"x","kind":"learning","text":"a","meta":{}}', "labels": []},
    {"text": '{"v":2,"id":"x","kind":"dream","text":"a","meta":{}}', "labels": []},
    {"text": '{"v":2,"id":7,"kind":"learning","text":"a","meta":{}}', "labels": []},
    {"text": '{"v":2,"id":"x","kind":"learning","text":"a"}', "labels": []},
    {"text": '{"v":2,"id":"x","kind":"learning","meta":{}}', "labels": []},
    {"text": '{"id":"x","kind":"learning","text":"a","meta":{}}', "labels": []},
    {"text": '{"v":2,"id":"x","kind":"conversation","text":"a","meta":{}}', "labels": []},
    {"text": '{"v":2,"id":"x","kind":"learning","text":"a","meta":{"source":{"kind":"fax"}}}', "labels": []},
    {"text": '{"v":2,"id":"x","kind":"learning","text":"a","meta":{"derive":"no"}}', "labels": []},
    {"text": '{"v":2,"id":"x","kind":"learning","text":"a","meta":{},"confidence":"1"}', "labels": []},
    {"text": '{"v":2,"id":"x","kind":"learning","text":"a",'
             '"meta":{"observed_at":"0001-01-01T00:00:00+23:00"}}'
    , "labels": []},
    {"text": "[" * 9000, "labels": []},
]  # fmt: skip


@pytest.mark.parametrize("event", FOREIGN)
async def test_somebody_elses_event_is_ignored_by_every_read(
    engine: CortexEngine, server: CortexServer, surface: Any, event: dict[str, Any]
) -> None:
    # §9 item 51
    foreign = {"id": "evt_9", "content": {"text": event["text"]}, "context": {"labels": event["labels"]}}
    page = {"items": [foreign, foreign], "has_more": False}
    pack = {"pack_id": "p", "layers": {"events": [foreign]}}
    for data, call in (
        (page, lambda: engine.list(ListRequest())),
        (page, lambda: engine.get(GetRequest(ids=("x",)))),
        (pack, lambda: engine.fetch(fetch_of("words"))),
    ):
        answer = raw.json_answer({**data, "success": True, "data": data})
        server.knobs.raw_answers = {
            f"GET /{surface.events}": [answer] * 9,
            f"POST /{surface.recall}": [answer] * 9,
        }
        found = await call()
        assert (getattr(found, "items", None) or getattr(found, "hits", None) or []) == []
        if isinstance(found, list):
            assert found == []


def fetch_of(query: str) -> Any:
    from tinymemory import FetchRequest

    return FetchRequest(query=query)


def test_an_empty_text_is_written_as_v2_with_lookup_labels_only() -> None:
    # §9 item 52
    blank = Learning.model_construct(
        text="", learning_kind=LearningKind.FACT, confidence=0.5, meta=MemoryMeta()
    )
    [event] = lay_out(blank).events

    assert event.text.startswith('{"v":2,')
    assert all(label.startswith("tm:") for label in event.labels)
    envelope = as_raw(event).envelope
    assert envelope is not None
    assert envelope.text == ""


async def test_an_event_over_the_cap_is_refused_before_anything_of_the_batch_is_sent(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 54
    with pytest.raises(InvalidRequestError, match=r"learning takes 78\d{4} bytes.*1 MiB"):
        await engine.store_many([Learning(text="fine"), Learning(text="x" * 786_432)])

    assert server.seen.requests == []


def test_an_event_at_the_cap_is_written() -> None:
    # §9 item 54
    [small] = lay_out(Learning(text="x")).events
    overhead = len((as_raw(small).envelope or Envelope.model_construct()).json_v2("").encode())

    lay_out(Learning(text="x" * (786_432 - overhead)))
    lay_out(Learning(text="\n" * ((786_432 - overhead) // 2)))
    for text in ("x" * (786_433 - overhead), "\n" * ((786_434 - overhead) // 2)):
        with pytest.raises(InvalidRequestError):
            lay_out(Learning(text=text))


def test_a_tool_turn_and_an_item_that_opts_out_ask_for_no_extraction() -> None:
    # §9 item 55
    tool = Conversation(turns=(Turn(role=Role.USER, text="a"), Turn(role=Role.TOOL, text="b")))
    quiet = Learning(text="hidden", meta=MemoryMeta(derive=False))
    loud = Learning(text="shown", meta=MemoryMeta(derive=True))

    directives = [
        [json.loads(event.body).get("directives") for event in lay_out(stored).events]
        for stored in (tool, quiet, loud)
    ]

    assert directives == [[None, {"extract": []}], [{"extract": []}], [None]]
    assert '"derive":false' in (envelope_text(lay_out(quiet).events[0]) or "")


def readable(**meta: Any) -> list[str]:
    [event] = lay_out(Learning(text="x", meta=MemoryMeta.model_validate(meta))).events
    return [label for label in event.labels if not label.startswith("tm:")]


@pytest.mark.parametrize(
    ("meta", "labels"),
    [
        ({}, ["kind:learning"]),
        ({"agent_id": "writer"}, ["kind:learning", "agent:writer"]),
        ({"agent_id": " "}, ["kind:learning"]),
        ({"agent_id": "+1 555 014 2377"}, ["kind:learning"]),
        ({"agent_id": "a" * 250}, ["kind:learning", "agent:" + "a" * 250]),
        ({"agent_id": "é" * 126}, ["kind:learning"]),
        ({"thread_id": "thread-5c1f7a2e-93b4-4d08-a6c7-e2d41b0f9a63"},
         ["kind:learning", "thread:thread-5c1f7a2e-93b4-4d08-a6c7-e2d41b0f9a63"]),
        ({"thread_id": "thread-5C1F7A2E-93B4-4D08-A6C7-E2D41B0F9A63"}, ["kind:learning"]),
        ({"thread_id": "thread-7"}, ["kind:learning"]),
        ({"thread_id": "thread-5c1f7a2e-93b4-4d08-a6c7-e2d41b0f9a63-2"}, ["kind:learning"]),
        ({"agent_id": "tm-redacted:9a84ef98e8ce63c8cff2f9798a41300c"}, ["kind:learning"]),
        ({"file_path": "/a/b/plan.md"}, ["kind:learning", "file:plan.md"]),
        ({"file_path": "C:\\docs\\plan.md"}, ["kind:learning", "file:plan.md"]),
        ({"file_path": "/a/b/"}, ["kind:learning"]),
        ({"language": "en", "repo": "acme/x"}, ["kind:learning"]),
    ],
)  # fmt: skip
def test_readable_labels_appear_when_due_and_there_is_never_a_language(
    meta: dict[str, Any], labels: list[str]
) -> None:
    # §9 item 56
    assert readable(**meta) == labels


@given(items, st.data())
def test_the_same_body_has_the_same_key_and_any_changed_byte_another(
    stored: Item, data: st.DataObject
) -> None:
    # §9 item 57
    [event, *_] = lay_out(stored).events
    [again, *_] = lay_out(stored.model_copy(deep=True)).events
    assert event.key == again.key
    assert len(event.key) == 60

    restamped = stored.meta.model_copy(
        update={"observed_at": data.draw(instants.filter(lambda at: at != stored.meta.observed_at))}
    )
    [changed, *_] = lay_out(stored.model_copy(update={"meta": restamped})).events
    assert changed.key != event.key


HOLDS_A_NUMBER = [
    "channel:whatsapp_+15550142377_+15550142377", "channel:whatsapp_15550142377@s.whatsapp.net_reply",
    "channel:sms_15550142377", "+1 (555) 014-2377", "555.014.2377", "ring 555-0142 later",
]  # fmt: skip
HOLDS_NONE = [
    "thread-5c1f7a2e-93b4-4d08-a6c7-e2d41b0f9a63", "thread-98765432-1234-1234-1234-987654321098",
    "channel:email_ann.lee@example.com_inbox", "channel:email_ann5550142@example.com_inbox",
    "channel:slack_U07XYZ123_C09QRS456", "commit 7e12345678cd", "b2c3d4e5f6", "t-9", "",
]  # fmt: skip


@pytest.mark.parametrize("value", HOLDS_A_NUMBER)
def test_an_id_that_holds_a_phone_number_is_redacted_and_twice_changes_nothing(value: str) -> None:
    # §9 item 61
    once = redacted(value)

    assert once == "tm-redacted:" + hex_digest(value, 32)
    assert redacted(once) == once


@pytest.mark.parametrize("value", HOLDS_NONE)
def test_an_id_that_holds_none_is_sent_as_it_is(value: str) -> None:
    # §9 item 61
    assert redacted(value) == value


@given(st.text() | st.binary().map(bytes.hex))
def test_whatever_an_event_holds_reading_it_is_an_envelope_or_nothing(text: str) -> None:
    # §9 item 153
    for version in (2, 3):
        found = parse_envelope(text, version=version)
        assert found is None or isinstance(found, Envelope)
    found = RawEvent("evt", text, (f"tm:e:00:{text}", text)).envelope
    assert found is None or isinstance(found, Envelope)
