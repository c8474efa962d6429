"""Values at a border: read closed, written spare, and wrong ones named without their content."""

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
    Role,
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
