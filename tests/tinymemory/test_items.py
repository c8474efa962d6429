"""Items: what they render, what can be stored, and the ids that two libraries share."""

import hashlib
import json
import math
import pickle
import struct
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from tinymemory import (
    Conversation,
    Document,
    DocumentBody,
    InvalidRequestError,
    ItemKind,
    Learning,
    LearningKind,
    MemoryMeta,
    Role,
    StoreItem,
    StoreReceipt,
    ToolCallRef,
    Turn,
)
from tinymemory.items import compact_json, float32_text

ITEM: TypeAdapter[Document | Conversation | Learning] = TypeAdapter(StoreItem)

A = (
    '{"type":"learning","text":"prefers window seats","kind":"preference","confidence":0.8,'
    '"meta":{"thread_id":"trip-7","source":{"kind":"conversation","id":"desk"}}}'
)
B = (
    '{"type":"conversation","turns":[{"role":"user","text":"when does the night train leave",'
    '"at":"2026-01-02T03:04:05Z"},{"role":"tool","text":"{\\"departs\\":\\"21:40\\"}",'
    '"at":"2026-01-02T03:04:06.250Z","tool_calls":[{"name":"timetable","id":"c1"}]}],'
    '"meta":{"namespace":"team:acme/agent:planner","thread_id":"channel:whatsapp_+15550142377_+15550142377",'
    '"agent_id":"planner","source":{"kind":"conversation","id":"channel:whatsapp_+15550142377_+15550142377"}}}'
)
C = (
    '{"type":"document","title":"Fahrplan \u2013 Überblick","body":{"text":"The \\"night train\\" leaves at '
    '21:40.\\nPlatform 7."},"mime":"text/markdown","meta":{"namespace":"source:notes",'
    '"workspace":"/home/ann/trips",'
    '"folder":"/home/ann/trips/docs","file_path":"/home/ann/trips/docs/plan.md","language":"en",'
    '"repo":"acme/trips","source":{"kind":"folder","id":"notes"},"tags":["train","été"]}}'
)
D = (
    '{"type":"conversation","turns":[{"role":"assistant","text":"Platform 7."}],"meta":{'
    '"namespace":"agent:a1","thread_id":"thread-5c1f7a2e-93b4-4d08-a6c7-e2d41b0f9a63","turns":{"first":1,"last":1},"agent_id":'
    '"a1","source":{"kind":"conversation","id":"thread-5c1f7a2e-93b4-4d08-a6c7-e2d41b0f9a63"}}}'
)
OK = '{"type":"learning","text":"ok","kind":"fact","confidence":1.0,"meta":{"source":{"kind":"agent"}}}'
WORKED = [
    (A, "2026-01-01T00:00:00Z", "df37e2b4259d384f2be7313f328744d0007b59d0"),
    (B, "2026-01-02T03:00:00Z", "4209864504a0111eb415a4799247533541ada11f"),
    (C, "2026-03-04T05:06:07Z", "6fae0b8deb3e25c6c66c81d73d5ed091a1b0b934"),
    (D, "2026-09-15T09:01:00Z", "307f5c999b7064b8d8a42e509dd1f68f9e2930c3"),
    (OK, "2026-01-01T00:00:00Z", "5f4e5b513d9626367802277303ab4f012c696fda"),
]
EVIDENCE = [
    ("x" * 5 + "é" * 10, "ee398594cf8c4cb6e08221db55e061de31b76bd5"),
    ("e" * 16_000, "b5e3d445fdde02e9ce1b0ad10b564a781bf89b93"),
]


@pytest.mark.parametrize(("wire", "observed_at", "id_"), WORKED)
def test_the_worked_examples_have_their_ids(wire: str, observed_at: str, id_: str) -> None:
    item = ITEM.validate_json(wire)

    assert compact_json(item.model_dump(mode="json")) == wire
    assert item.fingerprint() == id_
    assert hashlib.sha256(wire.encode()).hexdigest()[:40] == id_


@pytest.mark.parametrize(("wire", "observed_at", "id_"), WORKED)
def test_when_and_of_whom_an_item_was_observed_is_no_part_of_its_id(
    wire: str, observed_at: str, id_: str
) -> None:
    data: dict[str, Any] = json.loads(wire)
    data["meta"] |= {"observed_at": observed_at, "observed_actor": {"id": "ann", "name": "Ann"}}

    assert ITEM.validate_python(data).fingerprint() == id_


@pytest.mark.parametrize(("evidence", "id_"), EVIDENCE)
def test_evidence_is_part_of_the_id(evidence: str, id_: str) -> None:
    assert ITEM.validate_python(json.loads(A) | {"evidence": evidence}).fingerprint() == id_


@pytest.mark.parametrize(
    ("data", "id_"),
    [
        (
            {
                "type": "learning",
                "text": "ok",
                "kind": "fact",
                "confidence": 1,
                "meta": {"namespace": "agent:a"},
            },
            "da88fed08570e9b6662676b82ae1a41ad3adf6bc",
        ),
        (
            {
                "type": "document",
                "title": "Platforms",
                "body": {"text": "Night trains leave from platform 7."},
                "meta": {"thread_id": "trip-doc", "source": {"kind": "conversation", "id": "desk"}},
            },
            "0dcf3f3102144591bbeba839ce8c52339802d2e6",
        ),
        (
            {
                "type": "conversation",
                "turns": [
                    {"role": "user", "text": "which seat do I like"},
                    {"role": "assistant", "text": "a window seat"},
                    {"role": "user", "text": "right, window"},
                ],
                "meta": {"thread_id": "trip-chat", "source": {"kind": "conversation", "id": "desk"}},
            },
            "51e555de8ab48d8fdd881bdec92aae75757154cb",
        ),
    ],
)
def test_the_small_vectors_have_their_ids(data: dict[str, Any], id_: str) -> None:
    assert ITEM.validate_python(data).fingerprint() == id_


def test_every_other_field_is_part_of_the_id() -> None:
    data: dict[str, Any] = json.loads(A)
    changed: list[dict[str, Any]] = [
        {"text": "prefers aisle seats"},
        {"kind": "fact"},
        {"confidence": 0.81},
        {"evidence": "x"},
        {"meta": data["meta"] | {"namespace": "agent:a"}},
        {"meta": data["meta"] | {"tags": ["x"]}},
        {"meta": data["meta"] | {"derive": False}},
    ]

    ids = {ITEM.validate_python(data | change).fingerprint() for change in [{}, *changed]}

    assert len(ids) == len(changed) + 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.8, "0.8"),
        (1.0, "1.0"),
        (0.0, "0.0"),
        (1 / 3, "0.33333334"),
        (0.123456789, "0.12345679"),
        (0.00001, "0.00001"),
        (0.000001, "0.000001"),
        (0.0000015, "0.0000015"),
        (1e-7, "1e-7"),
        (1.5e-7, "1.5e-7"),
        (2.5e-7, "2.5e-7"),
        (1e-45, "1e-45"),
        (0.1 + 0.2, "0.3"),
    ],
)
def test_a_float32_prints_its_shortest_decimal(value: float, text: str) -> None:
    assert float32_text(value) == text


def as_float32(value: float) -> float:
    return struct.unpack("<f", struct.pack("<f", value))[0]


@given(st.floats(0, 1, width=32))
def test_a_float32_reads_back_from_its_decimal_and_no_shorter_one_would_do(value: float) -> None:
    text = float32_text(value)
    digits = Decimal(text).normalize().as_tuple().digits

    assert as_float32(float(text)) == value
    shorter = float(f"{value:.{len(digits) - 1}g}") if len(digits) > 1 else None
    assert shorter is None or as_float32(shorter) != value
    assert ("e" in text) == (0 < Decimal(text) < Decimal("0.000001"))


@given(st.floats(0, 1))
def test_a_confidence_is_kept_as_its_float32_and_comes_through_json(value: float) -> None:
    one = Learning(text="x", confidence=value)

    assert as_float32(one.confidence) == as_float32(value)
    assert Learning(text="x", confidence=one.confidence) == one
    assert Learning.model_validate_json(one.model_dump_json()) == one
    assert Learning(text="x", confidence=as_float32(value)).fingerprint() == one.fingerprint()


@given(st.text())
def test_json_escapes_what_must_be_and_nothing_else(text: str) -> None:
    wire = compact_json({"text": text})

    assert json.loads(wire) == {"text": text}
    assert all(character in wire for character in text if ord(character) >= 0x20 and character not in '"\\')


def test_json_spells_control_characters_as_the_other_library_does() -> None:
    assert compact_json('"\\/\n\r\t\b\f\x00\x1f\x7fé🚂') == '"\\"\\\\/\\n\\r\\t\\b\\f\\u0000\\u001f\x7fé🚂"'


texts = st.text(min_size=1, max_size=20)
metas = st.builds(
    MemoryMeta,
    thread_id=st.none() | texts,
    tags=st.lists(texts, max_size=2).map(tuple),
    url=st.none() | texts,
)
turns = st.builds(
    Turn,
    role=st.sampled_from(Role),
    text=texts,
    tool_calls=st.lists(st.builds(ToolCallRef, name=texts, id=st.none() | texts), max_size=2).map(tuple),
)
items = st.one_of(
    st.builds(Document, title=st.none() | texts, body=texts, mime=st.none() | texts, meta=metas),
    st.builds(Conversation, turns=st.lists(turns, max_size=3).map(tuple), meta=metas),
    st.builds(
        Learning,
        text=texts,
        learning_kind=st.sampled_from(LearningKind),
        confidence=st.floats(0, 1),
        evidence=st.none() | texts,
        meta=metas,
    ),
)


@given(items)
def test_every_item_comes_through_json_and_pickle_with_its_id(
    item: Document | Conversation | Learning,
) -> None:
    for twin in (
        ITEM.validate_json(ITEM.dump_json(item)),
        ITEM.validate_python(item.model_dump()),
        ITEM.validate_json(compact_json(item.model_dump(mode="json"))),
        pickle.loads(pickle.dumps(item)),
    ):
        assert twin == item
        assert twin.fingerprint() == item.fingerprint()


@given(items)
def test_an_id_is_forty_lowercase_hex_digits(item: Document | Conversation | Learning) -> None:
    assert len(item.fingerprint()) == 40
    assert set(item.fingerprint()) <= set("0123456789abcdef")


def test_the_fields_of_an_item_are_in_the_wires_order() -> None:
    document = Document(title="t", body=DocumentBody(text="b"), mime="m")
    learning = Learning(text="x", evidence="e")

    assert list(document.model_dump()) == ["type", "title", "body", "mime", "meta"]
    assert list(Conversation(turns=()).model_dump()) == ["type", "turns", "meta"]
    assert list(learning.model_dump()) == ["type", "text", "kind", "confidence", "evidence", "meta"]
    assert document.model_dump(mode="json")["body"] == {"text": "b"}


def test_a_learnings_kind_has_two_names_and_two_meanings() -> None:
    one = Learning(text="x", kind=LearningKind.PROCEDURE)

    assert one.learning_kind is LearningKind.PROCEDURE
    assert one.kind is ItemKind.LEARNING
    assert Learning.model_validate({"text": "x", "learning_kind": "procedure"}) == one
    assert list(LearningKind) == ["preference", "fact", "procedure", "correction", "other"]


def test_items_say_their_kind_and_only_learnings_a_confidence() -> None:
    assert Document.model_validate({"body": "x"}).kind is ItemKind.DOCUMENT
    assert Conversation(turns=()).kind is ItemKind.CONVERSATION
    assert Document.model_validate({"body": "x"}).confidence is None
    assert Conversation(turns=()).confidence is None
    assert Learning(text="x").confidence == 0.8


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"type": "document", "title": "T", "body": {"text": "b"}}, "# T\n\nb"),
        ({"type": "document", "title": " \u3000", "body": {"text": "b"}}, "b"),
        ({"type": "document", "body": {"text": "b"}}, "b"),
        ({"type": "learning", "text": " x "}, " x "),
        (
            {
                "type": "conversation",
                "turns": [
                    {"role": "user", "text": "hi"},
                    {
                        "role": "assistant",
                        "text": "hello",
                        "tool_calls": [{"name": "a", "id": "1"}, {"name": "b"}],
                    },
                ],
            },
            "user: hi\nassistant: hello [tools: a (1), b]",
        ),
    ],
)
def test_items_render_as_text(data: dict[str, Any], text: str) -> None:
    assert ITEM.validate_python(data).render_text() == text


@pytest.mark.parametrize(
    "data",
    [
        {"type": "document", "body": {"text": " \n\u3000"}},
        {"type": "document", "body": {"uri": "https://acme.example/x"}},
        {"type": "conversation", "turns": []},
        {
            "type": "conversation",
            "turns": [{"role": "user", "text": "a"}, {"role": "tool", "text": "\u2028"}],
        },
        {"type": "learning", "text": ""},
        {"type": "learning", "text": "x", "confidence": 1.0001},
        {"type": "learning", "text": "x", "confidence": -0.0001},
        {"type": "learning", "text": "x", "confidence": math.nan},
        {"type": "learning", "text": "x", "confidence": math.inf},
        {"type": "learning", "text": "x", "confidence": 1e300},
        {"type": "learning", "text": "half \ud83d a pair"},
        {"type": "document", "body": {"text": "x"}, "meta": {"tags": ["\udc00"]}},
    ],
    ids=ascii,
)
def test_an_item_can_be_built_that_cannot_be_stored(data: dict[str, Any]) -> None:
    item = ITEM.validate_python(data)

    with pytest.raises(InvalidRequestError):
        item.validate_storable()


@pytest.mark.parametrize(
    "data",
    [
        {"type": "document", "body": {"text": "x"}},
        {"type": "learning", "text": "\x1c"},
        {"type": "learning", "text": "x", "confidence": 0},
        {"type": "learning", "text": "x", "confidence": 1},
        {"type": "conversation", "turns": [{"role": "tool", "text": "{}"}]},
    ],
)
def test_what_has_something_to_say_can_be_stored(data: dict[str, Any]) -> None:
    ITEM.validate_python(data).validate_storable()


@pytest.mark.parametrize(
    "data",
    [
        {"type": "note", "text": "x"},
        {"text": "x"},
        {"type": "learning", "text": "x", "mood": "good"},
        {"type": "conversation", "turns": [{"role": "robot", "text": "x"}]},
        {"type": "learning", "text": "x", "meta": {"turns": {"first": 1.0, "last": 1}}},
    ],
)
def test_what_is_no_item_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ITEM.validate_python(data)


@pytest.mark.parametrize("body", [{}, {"text": "x", "uri": "y"}])
def test_a_body_is_a_text_or_a_uri(body: dict[str, str]) -> None:
    with pytest.raises(InvalidRequestError):
        DocumentBody.model_validate(body)


def test_items_are_frozen_and_hashable() -> None:
    one = Learning(text="x")

    with pytest.raises(ValidationError):
        one.text = "y"  # pyright: ignore[reportAttributeAccessIssue]  # frozen is the point
    assert hash(one) == hash(Learning(text="x"))


def test_a_receipt_is_an_id_and_whether_it_was_there() -> None:
    assert StoreReceipt(id="a", replayed=True).model_dump(mode="json") == {"id": "a", "replayed": True}
