"""Requests are built by position or by name, and say what is wrong with them either way."""

import pytest
from pydantic import TypeAdapter, ValidationError

from tinymemory import (
    Answer,
    BrainDocument,
    BuildBeliefs,
    ConsolidateRequest,
    Fetch,
    HolisticRecall,
    IngestBrain,
    InvalidRequestError,
    Latest,
    MetaFilter,
    Reach,
    ScopeSection,
    ThreadWindow,
)
from tinymemory.model import Value, parse


@pytest.mark.parametrize(
    ("by_position", "by_name"),
    [
        (Fetch("q"), Fetch(query="q")),
        (Answer("q", "brief", True), Answer(question="q", instructions="brief", fallback_to_fetch=True)),
        (ThreadWindow("t", 3), ThreadWindow(thread_id="t", from_turn=3)),
        (
            ScopeSection("A", MetaFilter(), 3, Latest()),
            ScopeSection(heading="A", filter=MetaFilter(), limit=3, query=Latest()),
        ),
        (HolisticRecall([], "q"), HolisticRecall(sections=(), query="q")),
        (
            BuildBeliefs(ConsolidateRequest(reach=Reach())),
            BuildBeliefs(request=ConsolidateRequest(reach=Reach())),
        ),
        (
            IngestBrain([BrainDocument("pdf", "text", "title", "mime")]),
            IngestBrain(documents=[BrainDocument(source="pdf", text="text", title="title", mime="mime")]),
        ),
    ],
)
def test_a_value_is_the_same_by_position_and_by_name(by_position: Value, by_name: Value) -> None:
    assert by_position == by_name


def test_too_many_values_or_one_given_twice_are_the_callers_mistake() -> None:
    with pytest.raises(TypeError, match="Fetch takes 1 values, not 2"):
        Fetch("q", "r")  # pyright: ignore[reportCallIssue]  # the mistake
    with pytest.raises(TypeError, match="Fetch got query twice"):
        Fetch("q", query="r")  # pyright: ignore[reportCallIssue]  # the mistake


def test_a_missing_or_unknown_field_is_a_fault_of_the_data() -> None:
    with pytest.raises(ValidationError):
        Answer()  # pyright: ignore[reportCallIssue]  # the mistake
    with pytest.raises(InvalidRequestError, match="`question`: field required"):
        parse(Answer, "{}", what="section")
    with pytest.raises(InvalidRequestError, match=r"`sections\.0\.headline`"):
        parse(HolisticRecall, '{"sections": [{"heading": "A", "headline": "A"}]}', what="recall")


def test_a_request_comes_back_from_its_json() -> None:
    request = HolisticRecall(
        [
            ScopeSection("A", MetaFilter(reach=Reach.of("team:acme")), 3, Fetch("q")),
            ScopeSection("B", query=Answer("why?", fallback_to_fetch=True)),
            ScopeSection("C", query=Latest()),
            ScopeSection("D"),
        ],
        "q",
        exclude_ids=["x"],
        exclude_thread=ThreadWindow("t", 3),
    )

    assert TypeAdapter(HolisticRecall).validate_json(request.model_dump_json()) == request
