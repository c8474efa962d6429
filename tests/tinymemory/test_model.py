"""Values at a border: read closed, written spare, and wrong ones named without their content."""

import pytest

from tinymemory import Hit, InvalidRequestError, Learning, MetaFilter
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
