"""What a kept job may have become, and what is made of each kind of damage."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinymemory.jobs import BackgroundJob, parse_job
from tinymemory.namespace import Namespace
from workers.envelope import Envelope, NewerEnvelope, UnreadableEnvelope, open_envelope, seal

BUILD = {
    "job": "build_beliefs",
    "request": {"reach": {"at": "team:acme", "inherit": False, "descendants": True}, "kinds": ["document"]},
}
INGEST = {"job": "ingest_brain", "documents": [{"source": "pdf", "text": "30 days", "title": "Refunds"}]}


def sealed(job: dict[str, Any], **changes: Any) -> str:
    return json.dumps({"v": 1, "root": "team:acme", "profile": "default", "job": job} | changes)


@pytest.mark.parametrize("job", [BUILD, INGEST])
def test_what_was_sealed_opens_as_it_was(job: dict[str, Any]) -> None:
    parsed: BackgroundJob = parse_job(job)

    opened = open_envelope(seal("team:acme", "default", parsed.model_dump_json()))

    assert opened == Envelope(Namespace.parse("team:acme"), "default", parsed)


def test_an_envelope_is_json_with_a_version() -> None:
    assert json.loads(seal("team:acme", "default", json.dumps(BUILD))) == {
        "v": 1,
        "root": "team:acme",
        "profile": "default",
        "job": BUILD,
    }


def test_a_newer_version_is_known_as_such_whatever_else_it_holds() -> None:
    opened = open_envelope('{"v": 7, "jobs": []}')

    assert opened == NewerEnvelope(7)
    assert isinstance(opened, NewerEnvelope)
    assert "7" in opened.reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON"),
        ("\x00garbage", "not JSON"),
        ("[" * 50_000, "not JSON"),
        ("[1]", "no version"),
        ('{"root": "team:acme"}', "no version"),
        ('{"v": "1"}', "no version"),
        ('{"v": true}', "no version"),
        ('{"v": 0}', "no version"),
        ('{"v": 1}', "`root`: field required"),
        (sealed(BUILD, root="bogus"), "`bogus`"),
        (sealed(BUILD, profile=3), "`profile`"),
        (sealed(BUILD, extra=1), "`extra`"),
        (sealed({"job": "summarise"}), "'summarise'"),
        (sealed({"job": "build_beliefs"}), "request`: field required"),
        (sealed(BUILD | {"extra": 1}), "extra"),
        (sealed({"job": "ingest_brain", "documents": [{"source": "pdf", "text": 7}]}), "documents.0.text"),
    ],
)
def test_what_nobody_wrote_like_this_is_unreadable_and_says_why(text: str, reason: str) -> None:
    opened = open_envelope(text)

    assert isinstance(opened, UnreadableEnvelope)
    assert reason in opened.reason


def test_the_reason_quotes_no_content() -> None:
    document = {"source": "pdf", "text": ["the secret plan"], "title": "the secret title"}

    opened = open_envelope(sealed({"job": "ingest_brain", "documents": [document]}))

    assert isinstance(opened, UnreadableEnvelope)
    assert "secret" not in opened.reason


@given(st.one_of(st.text(max_size=60), st.binary(max_size=60)))
def test_opening_never_fails(text: str | bytes) -> None:
    assert isinstance(open_envelope(text), UnreadableEnvelope | NewerEnvelope)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@given(st.dictionaries(st.sampled_from(["v", "root", "profile", "job"]), _JSON))
def test_opening_any_json_never_fails(fields: dict[str, Any]) -> None:
    open_envelope(json.dumps(fields))
