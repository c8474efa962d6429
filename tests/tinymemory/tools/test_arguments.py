"""A model that sends nonsense is told what is wrong in which field, and the engine is not called."""

import copy
import math
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinymemory import InvalidRequestError, MemoryTools, ReferenceEngine


def about(**days: Any) -> dict[str, Any]:
    return {"question": "x", "refers_to": {name.rstrip("_"): day for name, day in days.items()}}


REFUSED: list[tuple[str, Any, str]] = [
    ("memory_recall", {}, "`question` is required"),
    ("memory_recall", None, "`question` is required"),
    ("memory_recall", {"question": None}, "`question` is required"),
    ("memory_recall", {"question": " \u3000"}, "`question` is blank"),
    ("memory_recall", {"question": ["x"]}, "`question` is a string, not a list"),
    ("memory_recall", {"question": "x" * 10_000_000}, "`question` has 10000000 characters; at most 8000 fit"),
    ("memory_recall", {"question": "x", "limit": 0}, "`limit` is 0, not within 1 to 50"),
    ("memory_recall", {"question": "x", "limit": 51}, "`limit` is 51, not within 1 to 50"),
    ("memory_recall", {"question": "x", "limit": 1.0}, "`limit` is a whole number"),
    ("memory_recall", {"question": "x", "limit": "5"}, "`limit` is a whole number, not a string"),
    ("memory_recall", {"question": "x", "limit": True}, "`limit` is a whole number, not a truth value"),
    ("memory_recall", {"question": "x", "limit": 10**9000}, "`limit` is a very large number"),
    ("memory_recall", {"question": "x", "instructions": ""}, "`instructions` is blank"),
    ("memory_recall", {"question": "x", "refers_to": {"to": "2026-09-15"}}, "`refers_to.from` is required"),
    (
        "memory_recall",
        about(from_="2026-09-16", to="2026-09-15"),
        "`refers_to.to` (2026-09-15) is before `refers_to.from` (2026-09-16)",
    ),
    ("memory_recall", about(from_="last Tuesday"), "`refers_to.from` `last Tuesday`"),
    ("memory_recall", about(from_="2026-W38-2"), "`refers_to.from` `2026-W38-2`"),
    ("memory_recall", about(from_="2026-02-30"), "`refers_to.from` `2026-02-30`"),
    ("memory_recall", about(from_="2026-09-15", zone="UTC"), "`refers_to.zone`"),
    ("memory_fetch", {"query": "x", "mode": "fuzzy"}, "`mode` `fuzzy` is not a fetch mode"),
    ("memory_fetch", {"query": "x", "cursor": 7}, "`cursor` is a string, not a whole number"),
    ("memory_list", {"filter": {"kinds": ["memo"]}}, "`filter.kinds` `memo` is not an item kind"),
    ("memory_list", {"filter": {"kinds": "learning"}}, "`filter.kinds` is a list, not a string"),
    ("memory_list", {"filter": {"kinds": [None]}}, "`filter.kinds` is a string, not null"),
    ("memory_list", {"filter": {"sources": ["web"]}}, "`filter.sources` `web` is not a source kind"),
    ("memory_list", {"filter": {"tags_any": ["x"] * 3 + [7]}}, "`filter.tags_any` is a string"),
    ("memory_list", {"filter": {"tags_any": [*map(str, range(101))]}}, "`filter.tags_any` has 101 entries"),
    ("memory_list", {"filter": {"thread_id": ""}}, "`filter.thread_id` is blank"),
    ("memory_list", {"filter": {"thread_id": "\ud800"}}, "`filter.thread_id` holds a lone surrogate"),
    ("memory_list", {"filter": {"language": "en"}}, "`filter.language` is not known here"),
    ("memory_list", {"filter": "kinds=learning"}, "`filter` is an object, not a string"),
    ("memory_list", {"filter": []}, "`filter` is an object, not a list"),
    ("memory_list", {"filter": {"observed_after": "2026-09-15"}}, "`filter.observed_after` `2026-09-15`"),
    ("memory_list", {"filter": {"observed_after": "2026-09-15T09:00:00"}}, "is not a time with a zone"),
    ("memory_list", {"filter": {"observed_before": "1757926800"}}, "is not a time with a zone"),
    ("memory_list", {"filter": {"observed_before": 1757926800}}, "`filter.observed_before` is a string"),
    ("memory_list", {"filter": {"observed_before": "soon" * 1000}}, "`filter.observed_before` `soon"),
    (
        "memory_list",
        {"filter": {"observed_after": "2026-09-15T09:00:00Z", "observed_before": "2026-09-14T09:00:00Z"}},
        "`filter.observed_before` is not after `filter.observed_after`",
    ),
    ("memory_list", {"limt": 5}, "`limt` is not known here; there are filter, limit, cursor"),
    ("memory_list", {"k" * 9000: 5}, "is not known here"),
    ("memory_list", {7: 5}, "`7` is not known here"),
    ("memory_list", [], "the arguments are a JSON object, not a list"),
    ("memory_list", "{}", "the arguments are a JSON object, not a string"),
    ("memory_get", {}, "`ids` is required"),
    ("memory_get", {"ids": []}, "`ids` is empty"),
    ("memory_get", {"ids": ["a", " "]}, "`ids` is blank"),
    ("memory_get", {"ids": [7]}, "`ids` is a string, not a whole number"),
    ("memory_get", {"ids": {"a": 1}}, "`ids` is a list, not an object"),
    ("memory_get", {"ids": [str(n) for n in range(201)]}, "`ids` has 201 entries; at most 200 fit"),
    ("memory_explore", {}, "`facet` is required"),
    ("memory_explore", {"facet": "namespace"}, "`facet` `namespace` is not a facet"),
    ("memory_store", {}, "give exactly one of `learning`, `document` or `conversation`, not none"),
    ("memory_store", {"learning": None, "document": None, "conversation": None, "tags": None}, "exactly one"),
    (
        "memory_store",
        {"learning": {"text": "x"}, "document": {"text": "x"}},
        "exactly one of `learning`, `document` or `conversation`, not `learning` and `document`",
    ),
    ("memory_store", {"learning": "x"}, "`learning` is an object, not a string"),
    ("memory_store", {"learning": {"text": ""}}, "`learning.text` is blank"),
    ("memory_store", {"learning": {"text": "x", "kind": "fact"}}, "`learning.kind` is not known here"),
    ("memory_store", {"learning": {"text": "x", "learning_kind": "rumour"}}, "`learning.learning_kind` `rum"),
    ("memory_store", {"learning": {"text": "x", "confidence": 1.01}}, "`learning.confidence` is 1.01"),
    ("memory_store", {"learning": {"text": "x", "confidence": "0.8"}}, "`learning.confidence` is a number"),
    ("memory_store", {"learning": {"text": "x", "confidence": True}}, "`learning.confidence` is a number"),
    ("memory_store", {"learning": {"text": "x", "confidence": math.nan}}, "`learning.confidence` is nan"),
    ("memory_store", {"learning": {"text": "x", "confidence": -math.inf}}, "`learning.confidence` is -inf"),
    ("memory_store", {"document": {"title": "x"}}, "`document.text` is required"),
    ("memory_store", {"document": {"text": "x" * 10_000_000}}, "`document.text` has 10000000 characters"),
    ("memory_store", {"document": {"text": "\udfff"}}, "`document.text` holds a lone surrogate"),
    ("memory_store", {"conversation": {"turns": []}}, "`conversation.turns` is empty"),
    ("memory_store", {"conversation": {"turns": ["hi"]}}, "`conversation.turns[0]` is an object"),
    (
        "memory_store",
        {"conversation": {"turns": [{"role": "user", "text": "x"}, {"role": "robot", "text": "x"}]}},
        "`conversation.turns[1].role` `robot` is not a role",
    ),
    (
        "memory_store",
        {"conversation": {"turns": [{"role": "user", "text": "x"}] * 201}},
        "`conversation.turns` has 201 entries",
    ),
    ("memory_store", {"learning": {"text": "x"}, "observed_at": "2020"}, "`observed_at` is not known"),
    ("memory_forget", {"ids": ["a"], "filter": {"repo": "r"}}, "by `ids` or by `filter`, not by both"),
]


@pytest.mark.parametrize(("tool", "arguments", "fault"), REFUSED, ids=[fault for *_, fault in REFUSED])
async def test_what_is_wrong_is_named_by_tool_and_field_and_the_engine_is_not_called(
    engine: Any, tools: MemoryTools, tool: str, arguments: Any, fault: str
) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        await tools.call(tool, arguments)

    message = refused.value.message
    assert message.startswith(f"{tool}: ")
    assert fault in message
    assert len(message) < 400
    assert engine.calls == []


async def test_an_unknown_tool_is_refused_with_the_names_there_are(engine: Any, tools: MemoryTools) -> None:
    for name in ("memory_wipe", "", "x" * 9000):
        with pytest.raises(InvalidRequestError, match="there are memory_recall, memory_fetch") as refused:
            await tools.call(name, {})
        assert len(refused.value.message) < 250
    assert engine.calls == []


VALID: dict[str, dict[str, Any]] = {
    "memory_recall": {"question": "tide"},
    "memory_fetch": {"query": "tide"},
    "memory_list": {},
    "memory_get": {"ids": ["a"]},
    "memory_explore": {"facet": "tag"},
    "memory_store": {"learning": {"text": "tide"}},
}


def optional_paths(schema: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The paths of all optional fields below a schema's objects."""
    found: list[tuple[str, ...]] = []
    for name, member in schema["properties"].items():
        if name not in schema.get("required", ()):
            found.append((*path, name))
        if member["type"] == "object":
            found += optional_paths(member, (*path, name))
    return found


@pytest.mark.parametrize("tool", VALID)
async def test_r57_null_for_every_optional_argument_reads_as_absent(tools: MemoryTools, tool: str) -> None:
    schema = next(spec.parameters for spec in tools.specs() if spec.name == tool)
    plain = await tools.call(tool, VALID[tool])
    for path in optional_paths(schema):
        arguments = copy.deepcopy(VALID[tool])
        at: dict[str, Any] = arguments
        for step in path[:-1]:
            at = cast("dict[str, Any]", at.setdefault(step, {}))
        # What the path runs through may itself have required fields, which this is not about.
        if at is not arguments and path[0] in {"refers_to", "document", "conversation"}:
            continue
        at.setdefault(path[-1], None)

        result = await tools.call(tool, arguments)

        assert {**result, "replayed": False} == {**plain, "replayed": False}, path


async def test_r57_null_arguments_are_none(tools: MemoryTools) -> None:
    assert await tools.call("memory_list", None) == await tools.call("memory_list", {}) == {"items": []}


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("memory_recall", {"question": "tide", "refers_to": {"from": "2026-09-15", "to": None}}),
        ("memory_store", {"document": {"title": None, "text": "tide"}}),
        ("memory_store", {"learning": {"text": "tide", "confidence": None, "evidence": None}}),
        ("memory_forget", {"ids": ["a"], "filter": None}),
        ("memory_forget", {"ids": ["a"], "filter": {}}),
    ],
)
async def test_r57_null_inside_an_object_reads_as_absent(
    tools: MemoryTools, tool: str, arguments: dict[str, Any]
) -> None:
    await tools.call(tool, arguments)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "filter",
                    "ids",
                    "limit",
                    "query",
                    "question",
                    "learning",
                    "text",
                    "turns",
                    "namespace",
                    "kinds",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.sampled_from([*VALID, "memory_forget"]), json_values)
async def test_whatever_a_model_sends_is_answered_or_refused(tool: str, arguments: Any) -> None:
    tools = MemoryTools(ReferenceEngine()).placed_at("team:acme")

    answered: object
    try:
        answered = await tools.call(tool, arguments)
    except InvalidRequestError as error:
        answered = error

    assert isinstance(answered, dict) or str(answered).startswith(f"invalid request: {tool}: ")
