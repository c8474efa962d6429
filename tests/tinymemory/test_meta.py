"""Metadata and the filter over it: every field selects exactly what it names."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinymemory import (
    InvalidRequestError,
    ItemKind,
    MemoryMeta,
    MetaFilter,
    Namespace,
    ObservedActor,
    Reach,
    SourceKind,
    SourceRef,
    ToolCallRef,
    TurnRange,
)
from tinymemory.redaction import redacted

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
FULL = MemoryMeta(
    namespace=Namespace.parse("team:acme/agent:a"),
    workspace="w",
    folder="/a/b",
    file_path="/a/b/c.rs",
    language="rust",
    repo="acme/app",
    commit="c0ffee",
    url="https://acme.example/x",
    thread_id="t-9",
    turns=TurnRange(first=2, last=3),
    agent_id="a",
    tool_call=ToolCallRef(name="search", id="call-1"),
    source=SourceRef(kind=SourceKind.GITHUB, id="s-1"),
    tags=("one", "two"),
    observed_at=NOON,
    observed_actor=ObservedActor(id="ann", name="Ann"),
)


def test_the_json_has_the_fields_in_their_order_and_leaves_out_what_is_unset() -> None:
    assert list(FULL.model_dump(mode="json")) == [
        "namespace",
        "workspace",
        "folder",
        "file_path",
        "language",
        "repo",
        "commit",
        "url",
        "thread_id",
        "turns",
        "agent_id",
        "tool_call",
        "source",
        "tags",
        "observed_at",
        "observed_actor",
    ]
    assert MemoryMeta().model_dump_json() == '{"source":{"kind":"agent"}}'
    assert list(MemoryMeta(derive=False, observed_at=NOON).model_dump()) == [
        "source",
        "observed_at",
        "derive",
    ]


def test_the_enums_hold_the_wires_words_in_order() -> None:
    assert list(ItemKind) == ["document", "conversation", "learning"]
    assert list(SourceKind) == [
        "folder",
        "file",
        "link",
        "github",
        "rss",
        "composio",
        "conversation",
        "agent",
        "import",
    ]


def test_metadata_comes_through_json() -> None:
    assert MemoryMeta.model_validate_json(FULL.model_dump_json()) == FULL
    assert MemoryMeta.model_validate(FULL.model_dump(mode="json")) == FULL


SELECTING: list[dict[str, object]] = [
    {"workspace": "w"},
    {"language": "rust"},
    {"repo": "acme/app"},
    {"commit": "c0ffee"},
    {"url": "https://acme.example/x"},
    {"thread_id": "t-9"},
    {"agent_id": "a"},
    {"turns": {"first": 2, "last": 3}},
    {"tool_call": "search"},
    {"source_id": "s-1"},
    {"folder": "/a/b"},
    {"folder": "/a/b/"},
    {"folder": "/a"},
    {"folder": "/"},
    {"file_path": "/a/b/c.rs"},
    {"file_path": "/a/b"},
    {"file_path": "/a/b/"},
    {"kinds": ["document", "learning"]},
    {"sources": ["rss", "github"]},
    {"tags_any": ["zero", "two"]},
    {"observed_after": "2026-03-04T12:00:00Z"},
    {"observed_before": "2026-03-04T12:00:00.000001Z"},
    {"observed_after": "2026-03-04T13:00:00+01:00"},
    {"reach": {"at": "team:acme/agent:a"}},
    {"reach": {"at": "team:acme", "descendants": True}},
    {},
]
MISSING: list[dict[str, object]] = [
    {"workspace": "W"},
    {"language": "rus"},
    {"repo": "acme"},
    {"commit": "c0ffee0"},
    {"url": "https://acme.example/"},
    {"thread_id": "t-90"},
    {"agent_id": "A"},
    {"turns": {"first": 2, "last": 2}},
    {"tool_call": "call-1"},
    {"source_id": "s"},
    {"folder": "/a/b/c"},
    {"folder": "a/b"},
    {"folder": "/a/bc"},
    {"file_path": "/a/b/c"},
    {"file_path": "/a/b/c.rs.bak"},
    {"kinds": ["conversation"]},
    {"sources": ["agent"]},
    {"tags_any": ["three"]},
    {"observed_after": "2026-03-04T12:00:00.000001Z"},
    {"observed_before": "2026-03-04T12:00:00Z"},
    {"reach": {"at": "team:acme"}},
    {"reach": {}},
    {"workspace": "w", "language": "python"},
]


@pytest.mark.parametrize("selecting", SELECTING, ids=str)
def test_a_filter_selects_what_it_names(selecting: dict[str, object]) -> None:
    assert MetaFilter.model_validate(selecting).matches(ItemKind.DOCUMENT, FULL)


@pytest.mark.parametrize("missing", MISSING, ids=str)
def test_a_filter_leaves_out_what_it_does_not_name(missing: dict[str, object]) -> None:
    assert not MetaFilter.model_validate(missing).matches(ItemKind.DOCUMENT, FULL)


@pytest.mark.parametrize("selecting", [one for one in SELECTING if set(one) - {"kinds"}], ids=str)
def test_an_item_without_the_field_is_not_selected_by_it(selecting: dict[str, object]) -> None:
    bare = MemoryMeta(namespace=Namespace.parse("team:other"))

    assert not MetaFilter.model_validate(selecting).matches(ItemKind.DOCUMENT, bare)


def test_a_path_prefix_ends_at_a_slash() -> None:
    def selects(prefix: str, path: str) -> bool:
        return MetaFilter(file_path=prefix).matches(ItemKind.DOCUMENT, MemoryMeta(file_path=path))

    assert selects("/a/b", "/a/b")
    assert selects("/a/b", "/a/b/c.rs")
    assert selects("/a/b/", "/a/b")
    assert selects("docs", "docs/plan.md")
    assert not selects("/a/b", "/a/bc")
    assert not selects("/a/b/c.rs", "/a/b")


def test_an_undated_item_never_matches_a_window() -> None:
    for window in ({"observed_after": "0001-01-01T00:00:00Z"}, {"observed_before": "9999-12-31T00:00:00Z"}):
        assert not MetaFilter.model_validate(window).matches(ItemKind.DOCUMENT, MemoryMeta())


@pytest.mark.parametrize("field", ["thread_id", "agent_id", "source_id"])
def test_an_id_with_a_phone_number_finds_its_redacted_form_too(field: str) -> None:
    number = "channel:sms_15550142377"
    for stored in (number, redacted(number)):
        meta = MemoryMeta(thread_id=stored, agent_id=stored, source=SourceRef(id=stored))
        assert MetaFilter.model_validate({field: number}).matches(ItemKind.LEARNING, meta)


def test_a_filter_is_empty_when_nothing_is_set_and_a_reach_is_something() -> None:
    assert MetaFilter().is_empty
    assert MetaFilter(kinds=(), tags_any=()).is_empty
    assert MetaFilter.model_validate({}).is_empty
    assert not MetaFilter(reach=Reach()).is_empty
    assert not MetaFilter(folder="").is_empty
    assert all(MetaFilter.model_validate(one).is_empty == (one == {}) for one in SELECTING)


@pytest.mark.parametrize("data", [*SELECTING, *MISSING], ids=str)
def test_a_filter_comes_through_json(data: dict[str, object]) -> None:
    one = MetaFilter.model_validate(data)

    assert MetaFilter.model_validate_json(one.model_dump_json()) == one
    assert set(one.model_dump()) == set(data)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("2026-09-15T09:01:00Z", "2026-09-15T09:01:00Z"),
        ("2026-09-15T11:01:00+02:00", "2026-09-15T09:01:00Z"),
        ("2026-09-15T09:01:00.250Z", "2026-09-15T09:01:00.250Z"),
        ("2026-09-15T09:01:00.000000Z", "2026-09-15T09:01:00Z"),
        ("2026-09-15T09:01:00.123456789Z", "2026-09-15T09:01:00.123456Z"),
        ("2026-09-15T09:01:00.0000009Z", "2026-09-15T09:01:00Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
    ],
)
def test_instants_are_written_in_utc_with_no_more_digits_than_they_need(written: str, read: str) -> None:
    meta = MemoryMeta.model_validate({"observed_at": written})

    assert meta.model_dump(mode="json")["observed_at"] == read
    assert MemoryMeta.model_validate_json(f'{{"observed_at":"{written}"}}') == meta


@given(st.datetimes(timezones=st.just(timezone(timedelta(hours=-5)))))
def test_an_instant_reads_back_as_the_same_microsecond(at: datetime) -> None:
    if at.year < 9999:
        meta = MemoryMeta(observed_at=at)
        assert meta.observed_at == at
        assert MemoryMeta.model_validate_json(meta.model_dump_json()).observed_at == at


@pytest.mark.parametrize(
    "at",
    [
        datetime(2026, 3, 4),  # noqa: DTZ001  # naive is the point
        "2026-03-04T12:00:00",
        "2026-03-04",
        "1772625600",
        "-1772625600",
        1772625600,
        1.5,
        True,
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5))),
    ],
)
def test_a_naive_datetime_and_a_bare_number_are_refused(at: object) -> None:
    with pytest.raises(InvalidRequestError):
        MemoryMeta.model_validate({"observed_at": at})


def test_the_refusal_of_a_naive_datetime_says_to_pass_an_aware_one() -> None:
    with pytest.raises(InvalidRequestError, match="pass an aware one"):
        MetaFilter(observed_after=datetime(2026, 3, 4))  # noqa: DTZ001  # naive is the point
