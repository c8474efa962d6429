"""Requests and answers: what is refused and when, what the wire looks like, what a time hint covers."""

import pickle
from datetime import UTC, date, datetime, timedelta
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter, ValidationError

from tinymemory import (
    BeliefsRequest,
    Bucket,
    Citation,
    ConsolidateReceipt,
    ConsolidateRequest,
    ConsolidateStatus,
    Consolidation,
    ExplorePage,
    ExploreRequest,
    Facet,
    FetchMode,
    FetchPage,
    FetchRequest,
    ForgetReport,
    ForgetTarget,
    GetRequest,
    Hit,
    InvalidRequestError,
    ItemKind,
    ListPage,
    ListRequest,
    MemoryMeta,
    MetaFilter,
    Namespace,
    Reach,
    RecallAnswer,
    RecallRequest,
    SourceKind,
    SourceRef,
    TimeHint,
    ToolCallRef,
    TurnRange,
)

REACH = Reach.of("team:acme")
HINT = TimeHint(date(2026, 3, 1), date(2026, 3, 2), "Europe/Vienna")
NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)

REFUSED: list[Any] = [
    RecallRequest(question=" \u3000"),
    RecallRequest(question="x", limit=0),
    RecallRequest(question="\ud800"),
    FetchRequest(query=""),
    FetchRequest(query="x", limit=-1),
    FetchRequest(query="x", beliefs=-1),
    ListRequest(limit=0),
    ListRequest(filter=MetaFilter(thread_id="\ud800")),
    ForgetTarget.ids([]),
    ForgetTarget.filter(MetaFilter()),
    ExploreRequest(facet=Facet.KIND, limit=0),
    ExploreRequest(facet=Facet.KIND, limit=501),
    ExploreRequest(facet=Facet.KIND, scan_limit=0),
    ExploreRequest(facet=Facet.KIND, scan_limit=50_001),
    GetRequest(ids=()),
    GetRequest(ids=("a", " ")),
    GetRequest(ids=tuple(map(str, range(201)))),
    ConsolidateRequest(reach=REACH, kinds=(ItemKind.DOCUMENT, ItemKind.DOCUMENT)),
    BeliefsRequest(reach=REACH, limit=0),
]
ALLOWED: list[Any] = [
    RecallRequest(question="\x1c", limit=1, instructions="", refers_to=HINT),
    FetchRequest(query="x", mode=FetchMode.VECTOR, cursor="c", beliefs=3, refers_to=HINT),
    ListRequest(limit=1, cursor="c"),
    ForgetTarget.ids(["a", "a"]),
    ForgetTarget.filter(MetaFilter(reach=REACH)),
    ExploreRequest(facet=Facet.TAG, limit=500, scan_limit=50_000),
    GetRequest(ids=tuple(map(str, range(200))), reach=REACH),
    ConsolidateRequest(reach=REACH, kinds=(ItemKind.DOCUMENT, ItemKind.LEARNING)),
    ConsolidateRequest(reach=REACH),
    BeliefsRequest(reach=REACH, limit=1, query="x"),
]


@pytest.mark.parametrize("request_", REFUSED, ids=ascii)
def test_a_malformed_request_can_be_built_and_is_refused_when_it_is_used(request_: Any) -> None:
    with pytest.raises(InvalidRequestError):
        request_.ensure_valid()


@pytest.mark.parametrize("request_", ALLOWED, ids=str)
def test_a_well_formed_request_is_not_refused_and_comes_through_json(request_: Any) -> None:
    request_.ensure_valid()

    kind = cast("type[BaseModel]", type(request_))
    assert kind.model_validate_json(request_.model_dump_json()) == request_
    assert kind.model_validate(request_.model_dump()) == request_
    assert pickle.loads(pickle.dumps(request_)) == request_
    assert hash(request_) == hash(pickle.loads(pickle.dumps(request_)))


CITED = Citation(id="a", kind=ItemKind.DOCUMENT, snippet="s", meta=MemoryMeta(), score=0.25)
HIT = Hit(
    id="a", kind=ItemKind.LEARNING, text="x", meta=MemoryMeta(observed_at=NOON), score=0.5, confidence=0.8
)
ANSWERS: list[BaseModel] = [
    HIT,
    CITED,
    RecallAnswer(answer="x", citations=[CITED], model="m"),
    FetchPage(hits=[HIT], next_cursor="c", beliefs=[HIT]),
    ListPage(items=[HIT]),
    ForgetReport(forgotten=2),
    ExplorePage(facet=Facet.TAG, buckets=[Bucket(value="a", count=1)], total=2, missing=1),
    ConsolidateReceipt(status=ConsolidateStatus.COMPLETED, scopes=1, built=2),
    ConsolidateReceipt(status=ConsolidateStatus.STARTED, jobs=["j"]),
]


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: type(answer).__name__)
def test_an_answer_comes_through_json_and_pickle(answer: BaseModel) -> None:
    assert type(answer).model_validate_json(answer.model_dump_json()) == answer
    assert pickle.loads(pickle.dumps(answer)) == answer
    assert None not in answer.model_dump().values()


def test_the_defaults_are_an_empty_filter_no_beliefs_and_five_thousand_items() -> None:
    assert RecallRequest(question="x").filter.is_empty
    assert FetchRequest(query="x").filter.is_empty
    assert ListRequest().filter.is_empty
    assert FetchRequest(query="x").beliefs == 0
    assert ExploreRequest(facet=Facet.KIND).scan_limit == 5000
    assert Hit(id="a", kind=ItemKind.LEARNING, text="x", meta=MemoryMeta()).score == 0.0


def test_the_enums_hold_the_wires_words() -> None:
    assert list(FetchMode) == ["keyword", "vector", "hybrid"]
    assert list(ConsolidateStatus) == ["started", "scheduled", "completed"]
    assert list(Consolidation) == ["none", "on_demand", "scheduled"]
    assert " ".join(Facet) == (
        "kind source source_id workspace folder file_path language repo url thread agent tool_call tag"
        " namespace"
    )


def test_a_forget_target_is_ids_or_a_filter_on_the_wire() -> None:
    assert ForgetTarget.ids(["a", "b"]).model_dump(mode="json") == {"ids": ["a", "b"]}
    assert ForgetTarget.filter(MetaFilter(repo="r")).model_dump(mode="json") == {"filter": {"repo": "r"}}
    assert ForgetTarget.model_validate({"ids": ["a"]}) == ForgetTarget.ids(["a"])
    assert ForgetTarget.model_validate({"filter": {}}) == ForgetTarget.filter(MetaFilter())


@pytest.mark.parametrize("data", [{}, {"ids": ["a"], "filter": {"repo": "r"}}])
def test_a_forget_target_that_is_neither_or_both_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError):
        ForgetTarget.model_validate(data)


def test_a_build_request_reads_and_writes_the_form_jobs_carry() -> None:
    wire = (
        '{"reach":{"at":"team:acme/agent:support-01","inherit":false,"descendants":false},'
        '"kinds":["conversation"]}'
    )
    request = ConsolidateRequest(
        reach=Reach.exact("team:acme/agent:support-01"), kinds=(ItemKind.CONVERSATION,)
    )

    assert request.model_dump_json() == wire
    assert ConsolidateRequest.model_validate_json(wire) == request
    assert ConsolidateRequest(reach=Reach()).model_dump(mode="json") == {
        "reach": {"at": "root", "inherit": True, "descendants": False}
    }
    with pytest.raises(ValidationError):
        ConsolidateRequest.model_validate({"reach": {}, "scope": "x"})


# Facets


TAGGED = MemoryMeta(
    namespace=Namespace.parse("team:acme"),
    workspace="w",
    folder="/a",
    file_path="/a/b",
    language="en",
    commit="c",
    repo="r",
    url="u",
    thread_id="t",
    agent_id="a",
    tool_call=ToolCallRef(name="search", id="1"),
    source=SourceRef(kind=SourceKind.RSS, id="s"),
    tags=("x", "y", "x"),
    turns=TurnRange(first=0, last=0),
)
VALUES = {
    Facet.KIND: ["document"],
    Facet.SOURCE: ["rss"],
    Facet.SOURCE_ID: ["s"],
    Facet.WORKSPACE: ["w"],
    Facet.FOLDER: ["/a"],
    Facet.FILE_PATH: ["/a/b"],
    Facet.LANGUAGE: ["en"],
    Facet.REPO: ["r"],
    Facet.URL: ["u"],
    Facet.THREAD: ["t"],
    Facet.AGENT: ["a"],
    Facet.TOOL_CALL: ["search"],
    Facet.TAG: ["x", "y"],
    Facet.NAMESPACE: ["team:acme"],
}


@pytest.mark.parametrize("facet", Facet)
def test_narrowing_by_a_value_an_item_has_still_selects_the_item(facet: Facet) -> None:
    assert facet.values(ItemKind.DOCUMENT, TAGGED) == VALUES[facet]
    for value in VALUES[facet]:
        narrowed = facet.narrow(MetaFilter(commit="c"), value)
        assert narrowed.matches(ItemKind.DOCUMENT, TAGGED)
        assert narrowed.commit == "c"
        assert not narrowed.matches(ItemKind.LEARNING, MemoryMeta(commit="c"))


@pytest.mark.parametrize("facet", sorted(set(Facet) - {Facet.KIND, Facet.SOURCE, Facet.NAMESPACE}))
def test_an_item_without_the_property_has_no_value(facet: Facet) -> None:
    assert facet.values(ItemKind.DOCUMENT, MemoryMeta()) == []


@pytest.mark.parametrize(
    ("facet", "value"), [(Facet.KIND, "memo"), (Facet.SOURCE, "x"), (Facet.NAMESPACE, "x")]
)
def test_a_value_the_facet_cannot_have_is_refused(facet: Facet, value: str) -> None:
    with pytest.raises(InvalidRequestError):
        facet.narrow(MetaFilter(), value)


def test_narrowing_never_leaves_the_reach_of_the_filter() -> None:
    confined = MetaFilter(reach=Reach.exact("team:acme"))

    assert Facet.NAMESPACE.narrow(confined, "team:acme").reach == Reach.exact("team:acme")
    with pytest.raises(InvalidRequestError):
        Facet.NAMESPACE.narrow(confined, "team:other")


# Time hints


def test_a_hint_covers_the_local_days_named_both_included() -> None:
    def covers(text: str) -> bool:
        return HINT.covers(datetime.fromisoformat(text))

    assert covers("2026-02-28T23:00:00+00:00")  # midnight in Vienna
    assert not covers("2026-02-28T22:59:59+00:00")
    assert covers("2026-03-02T22:59:59+00:00")
    assert not covers("2026-03-02T23:00:00+00:00")


def test_a_day_of_a_clock_change_is_a_day_of_23_or_25_hours() -> None:
    short = TimeHint(date(2026, 3, 29), date(2026, 3, 29), "Europe/Vienna")
    long = TimeHint(date(2026, 10, 25), date(2026, 10, 25), "Europe/Vienna")

    def hours(hint: TimeHint, start: datetime) -> int:
        return sum(hint.covers(start + timedelta(hours=hour)) for hour in range(72))

    assert hours(short, datetime(2026, 3, 28, tzinfo=UTC)) == 23
    assert hours(long, datetime(2026, 10, 24, tzinfo=UTC)) == 25


def test_without_a_zone_days_are_those_of_utc() -> None:
    hint = TimeHint(date(2026, 3, 1), date(2026, 3, 1))

    assert hint.covers(datetime(2026, 3, 1, 23, 59, tzinfo=UTC))
    assert not hint.covers(datetime(2026, 3, 2, tzinfo=UTC))
    with pytest.raises(InvalidRequestError):
        hint.covers(datetime(2026, 3, 1))  # noqa: DTZ001  # naive is the point


def test_instants_at_the_ends_of_time_are_on_no_hinted_day() -> None:
    west = TimeHint(date(1, 1, 1), date(9999, 12, 31), "America/New_York")

    assert not west.covers(datetime(1, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("start", "end", "zone"),
    [
        (date(2026, 3, 2), date(2026, 3, 1), None),
        (date(2026, 3, 1), date(2026, 3, 1), "Europe/Atlantis"),
        (date(2026, 3, 1), date(2026, 3, 1), "Europe"),
        (date(2026, 3, 1), date(2026, 3, 1), "../UTC"),
        (date(2026, 3, 1), date(2026, 3, 1), "/etc/localtime"),
        (date(2026, 3, 1), date(2026, 3, 1), ""),
        (date(2026, 3, 1), date(2026, 3, 1), "UTC\x00"),
        (date(2026, 3, 1), date(2026, 3, 1), 7),
        ("2026-W01-1", "2026-W01-1", None),
        ("20260301", "20260301", None),
        ("2026-02-30", "2026-03-01", None),
        ("2026-3-1", "2026-03-01", None),
        ("\u0662\u0660\u0662\u0666-03-01", "2026-03-01", None),
        (datetime(2026, 3, 1, tzinfo=UTC), date(2026, 3, 1), None),
        (20260301, date(2026, 3, 1), None),
    ],
)
def test_a_hint_that_is_backwards_or_no_day_or_in_no_zone_is_refused(start: Any, end: Any, zone: Any) -> None:
    with pytest.raises(InvalidRequestError):
        TimeHint(start, end, zone)


def test_a_hint_is_from_to_and_perhaps_a_zone_on_the_wire() -> None:
    adapter = TypeAdapter(TimeHint)

    assert adapter.dump_python(HINT, mode="json") == {
        "from": "2026-03-01",
        "to": "2026-03-02",
        "zone": "Europe/Vienna",
    }
    assert adapter.validate_python({"from": "2026-03-01", "to": "2026-03-02"}) == TimeHint(
        date(2026, 3, 1), date(2026, 3, 2)
    )
    assert adapter.validate_json(adapter.dump_json(HINT)) == HINT
    assert FetchRequest.model_validate(
        {"query": "x", "refers_to": {"from": "2026-03-01", "to": "2026-03-01"}}
    )
    with pytest.raises(InvalidRequestError):
        adapter.validate_python({"from": "2026-03-01", "to": "2026-03-02", "until": "x"})
    with pytest.raises(InvalidRequestError):
        adapter.validate_python({"to": "2026-03-02"})


days = st.integers(0, 9).map(lambda days: datetime(2026, 3, 1, tzinfo=UTC) + timedelta(days=days))
dated = st.none() | days


@given(st.lists(dated, max_size=12), st.integers(1, 10), st.integers(0, 5))
def test_ranking_is_a_stable_partition_that_drops_nothing(
    observed: list[datetime | None], first: int, length: int
) -> None:
    hint = TimeHint(date(2026, 3, first), date(2026, 3, first + length))
    hits = [
        Hit(id=str(number), kind=ItemKind.LEARNING, text="x", meta=MemoryMeta(observed_at=at))
        for number, at in enumerate(observed)
    ]

    def hinted(hit: Hit) -> bool:
        return hit.meta.observed_at is not None and hint.covers(hit.meta.observed_at)

    assert hint.rank(hits) == [hit for hit in hits if hinted(hit)] + [hit for hit in hits if not hinted(hit)]
