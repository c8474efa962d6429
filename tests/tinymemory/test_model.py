"""Values at a border: read closed, written spare, and wrong ones named without their content."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from tinymemory import (
    Document,
    DocumentBody,
    FetchMode,
    FetchRequest,
    Hit,
    InvalidRequestError,
    Learning,
    LearningKind,
    MetaFilter,
    Reach,
    Role,
    TimeHint,
    Turn,
    TurnRange,
)
from tinymemory.model import parse


def test_a_value_is_read_from_python_data_and_from_json() -> None:
    assert parse(Learning, {"text": "x"}, what="memo") == Learning(text="x")
    assert parse(Learning, '{"text": "x"}', what="memo") == Learning(text="x")
    assert parse(Learning, b'{"text": "x"}', what="memo") == Learning(text="x")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"text": 7}, "memo: `text`: input should be a valid string"),
        ({}, "memo: `text`: field required"),
        ({"text": "x", "mood": "secret"}, "memo: `mood`: extra inputs are not permitted"),
        ({"text": "x", "meta": {"tags": [7]}}, "memo: `meta.tags.0`: input should be a valid string"),
        ("{", "memo: invalid JSON"),
    ],
)
def test_what_does_not_fit_is_refused_by_the_name_of_the_field(data: object, message: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        parse(Learning, data, what="memo")

    assert str(refused.value).startswith(f"invalid request: {message}")
    assert "secret" not in str(refused.value)


def test_a_nested_value_may_be_given_as_its_dict() -> None:
    hit = Hit.model_validate({"id": "a", "kind": "learning", "text": "x", "meta": {"tags": ["t"]}})

    assert hit.meta.tags == ("t",)
    assert MetaFilter.model_validate({"reach": {"at": "team:a"}}).reach is not None


def test_fields_may_be_given_in_order_without_their_names() -> None:
    assert Turn(Role.USER, "hi") == Turn(role=Role.USER, text="hi")
    assert Learning("x", LearningKind.PREFERENCE, 0.5) == Learning(
        text="x", kind=LearningKind.PREFERENCE, confidence=0.5
    )
    assert Document("T", DocumentBody("x")).type == "document"
    assert FetchRequest("q", FetchMode.KEYWORD, MetaFilter(), 3, beliefs=2) == FetchRequest(
        query="q", mode=FetchMode.KEYWORD, filter=MetaFilter(), limit=3, beliefs=2
    )


def test_more_values_than_fields_or_one_given_twice_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="TurnRange takes 2 values, not 3"):
        TurnRange(1, 2, 3)  # pyright: ignore[reportCallIssue]  # refused at run time
    with pytest.raises(TypeError, match="Learning got text twice"):
        Learning("x", text="y")  # pyright: ignore[reportCallIssue]  # refused at run time
    with pytest.raises(TypeError, match="Learning got kind twice"):
        Learning("x", LearningKind.FACT, kind=LearningKind.FACT)  # pyright: ignore[reportCallIssue]  # refused at run time


def test_what_is_missing_is_a_validation_error_however_the_rest_was_given() -> None:
    with pytest.raises(ValidationError, match="Field required"):
        Turn(Role.USER)  # pyright: ignore[reportCallIssue]  # refused at run time


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (Reach.of("team:a"), {"at": "team:a", "inherit": True, "descendants": False}),
        (TimeHint("2026-01-01", "2026-01-02"), {"from": "2026-01-01", "to": "2026-01-02"}),  # pyright: ignore[reportArgumentType]  # its JSON has texts
    ],
)
def test_a_reach_and_a_time_hint_write_and_read_json_as_models_do(
    value: Reach | TimeHint, written: dict[str, Any]
) -> None:
    assert value.model_dump(mode="json") == written
    assert json.loads(value.model_dump_json()) == written
    assert type(value).model_validate(written) == value
    assert type(value).model_validate(value) == value
    assert type(value).model_validate_json(json.dumps(written)) == value


def test_a_reach_reads_what_is_missing_as_the_root_with_what_is_above_it() -> None:
    assert Reach.model_validate_json("{}") == Reach()
