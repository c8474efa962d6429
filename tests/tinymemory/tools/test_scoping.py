"""A model cannot choose whose memory it touches: the four invariants, over agent, sibling, team and root."""

import copy
from typing import Any, cast

import pytest

from tinymemory import (
    GetRequest,
    InvalidRequestError,
    ListRequest,
    MemoryTools,
    Namespace,
    Reach,
    ReferenceEngine,
    ToolScope,
    UnsupportedError,
)

WRITER = "team:acme/agent:writer"
SCOPES = {
    "of": (Reach.of(WRITER), {"root", "team", "writer"}),
    "exact": (Reach.exact(WRITER), {"writer"}),
    "subtree": (Reach.subtree(WRITER), {"writer", "below"}),
    "both": (Reach(Namespace.parse(WRITER), True, True), {"root", "team", "writer", "below"}),
    "team": (Reach.subtree("team:acme"), {"team", "writer", "reader", "below"}),
    "everything": (None, {"root", "team", "writer", "reader", "below", "other"}),
}
WRITES: list[dict[str, Any]] = [
    {"learning": {"text": "kept"}},
    {"document": {"title": "T", "text": "kept"}},
    {"conversation": {"turns": [{"role": "user", "text": "kept"}]}},
]


async def stored_ids(engine: ReferenceEngine) -> set[str]:
    return {hit.id for hit in (await engine.list(ListRequest(limit=100))).items}


# 1. Writes land at the place.


@pytest.mark.parametrize("arguments", WRITES, ids=lambda arguments: next(iter(arguments)))
@pytest.mark.parametrize("place", ["root", "team:acme", WRITER])
async def test_a_store_lands_where_the_host_placed_the_tools(
    engine: ReferenceEngine, tools: MemoryTools, arguments: dict[str, Any], place: str
) -> None:
    receipt = await tools.placed_at(place).call("memory_store", {**arguments, "tags": ["a", "b"]})

    (hit,) = await engine.get(GetRequest(ids=(receipt["id"],)))
    assert str(hit.meta.namespace) == place
    assert hit.meta.model_dump(mode="json", exclude={"namespace"}) == {
        "source": {"kind": "agent"},
        "tags": ["a", "b"],
        "observed_at": "2026-09-15T09:01:00Z",
    }


async def test_a_wider_reach_does_not_move_where_a_store_lands(
    engine: ReferenceEngine, tools: MemoryTools
) -> None:
    wide = tools.placed_at(WRITER).with_reach(Reach.subtree("team:acme"))

    receipt = await wide.call("memory_store", {"learning": {"text": "kept"}})

    (hit,) = await engine.get(GetRequest(ids=(receipt["id"],)))
    assert str(hit.meta.namespace) == WRITER


# 2. Reads see the scope's reach.


@pytest.mark.parametrize("scope", SCOPES)
async def test_every_read_sees_exactly_the_scopes_reach(
    tools: MemoryTools, ids: dict[str, str], scope: str
) -> None:
    reach, names = SCOPES[scope]
    confined = tools.placed_at(WRITER).with_reach(reach)
    wanted = {ids[name] for name in names}
    everything = [*ids.values(), "0" * 40]

    recalled = await confined.call("memory_recall", {"question": "tide of", "limit": 50})
    fetched = await confined.call("memory_fetch", {"query": "tide of", "limit": 50})
    listed = await confined.call("memory_list", {"limit": 50})
    got = await confined.call("memory_get", {"ids": everything})
    explored = await confined.call("memory_explore", {"facet": "tag", "limit": 50})

    assert {citation["id"] for citation in recalled["citations"]} == wanted
    assert {hit["id"] for hit in fetched["hits"]} == wanted
    assert {hit["id"] for hit in listed["items"]} == wanted
    assert {hit["id"] for hit in got["items"]} == wanted
    assert set(got["missing"]) == set(everything) - wanted
    assert {bucket["value"] for bucket in explored["buckets"]} == {"tide", *names}
    assert explored["total"] == len(names)


@pytest.mark.parametrize("mode", ["keyword", "vector", "hybrid"])
async def test_a_models_filter_narrows_within_the_reach_and_never_out_of_it(
    tools: MemoryTools, ids: dict[str, str], mode: str
) -> None:
    confined = tools.placed_at(WRITER)

    page = await confined.call(
        "memory_fetch",
        {"query": "tide of", "mode": mode, "filter": {"tags_any": ["reader", "other", "team"]}},
    )

    assert [hit["id"] for hit in page["hits"]] == [ids["team"]]


async def test_placing_tools_resets_the_reach_to_the_place_and_its_ancestors(tools: MemoryTools) -> None:
    wide = tools.with_reach(Reach.subtree("team:other"))

    assert wide.placed_at(WRITER).scope == ToolScope(
        place=Namespace.parse(WRITER), reach=Reach.of(WRITER), writes=True
    )
    assert tools.scope == ToolScope()
    assert tools.scope.reach is None


# 3. A forget cannot reach out.


@pytest.mark.parametrize("scope", SCOPES)
async def test_ids_out_of_reach_are_skipped_and_survive(
    engine: ReferenceEngine, tools: MemoryTools, ids: dict[str, str], scope: str
) -> None:
    reach, names = SCOPES[scope]
    asked = [*ids.values(), "unknown", ids["other"]]

    report = await tools.placed_at(WRITER).with_reach(reach).call("memory_forget", {"ids": asked})

    assert report["forgotten"] == len(names)
    assert report["skipped"] == [id_ for id_ in dict.fromkeys(asked) if id_ not in {ids[n] for n in names}]
    assert await stored_ids(engine) == {ids[name] for name in ids if name not in names}


async def test_nothing_is_forgotten_when_no_id_is_in_reach(
    engine: ReferenceEngine, tools: MemoryTools, ids: dict[str, str]
) -> None:
    report = await tools.placed_at(WRITER).call("memory_forget", {"ids": [ids["reader"], ids["other"]]})

    assert report == {"forgotten": 0, "skipped": [ids["reader"], ids["other"]]}
    assert len(await stored_ids(engine)) == len(ids)


@pytest.mark.parametrize("scope", SCOPES)
async def test_a_forget_by_filter_is_confined_to_the_reach(
    engine: ReferenceEngine, tools: MemoryTools, ids: dict[str, str], scope: str
) -> None:
    reach, names = SCOPES[scope]

    report = (
        await tools.placed_at(WRITER)
        .with_reach(reach)
        .call("memory_forget", {"filter": {"tags_any": ["tide"]}})
    )

    assert report == {"forgotten": len(names), "skipped": []}
    assert await stored_ids(engine) == {ids[name] for name in ids if name not in names}


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        None,
        {"filter": {}},
        {"filter": None},
        {"filter": {"kinds": []}},
        {"filter": {"kinds": None, "tags_any": [], "repo": None}},
        {"ids": None, "filter": {}},
    ],
)
async def test_a_forget_of_everything_in_reach_is_refused(
    engine: ReferenceEngine, tools: MemoryTools, ids: dict[str, str], arguments: Any
) -> None:
    with pytest.raises(InvalidRequestError, match=r"memory_forget: name the `ids`"):
        await tools.placed_at(WRITER).call("memory_forget", arguments)

    assert len(await stored_ids(engine)) == len(ids)


# 4. Attempts are refused, not ignored.

TOOLS: dict[str, dict[str, Any]] = {
    "memory_recall": {
        "question": "tide",
        "filter": {"kinds": ["learning"]},
        "refers_to": {"from": "2026-09-15"},
    },
    "memory_fetch": {"query": "tide", "filter": {"kinds": ["learning"]}},
    "memory_list": {"filter": {"kinds": ["learning"]}},
    "memory_get": {"ids": ["a"]},
    "memory_explore": {"facet": "tag", "filter": {"kinds": ["learning"]}},
    "memory_store": {"conversation": {"turns": [{"role": "user", "text": "x"}]}},
    "memory_forget": {"filter": {"kinds": ["learning"]}},
}
BAD_SCOPES: list[Any] = [None, "null", "", 7, "team:acme", "team:acme/agent:writr", {"at": "root"}, [], False]


def with_key(value: Any, path: tuple[Any, ...], key: str, scope: Any) -> Any:
    """A deep copy with a key more, in the object at a path."""
    changed = copy.deepcopy(value)
    at = changed
    for step in path:
        at = at[step]
    at[key] = scope
    return changed


def members(value: Any) -> list[tuple[Any, Any]]:
    """What a JSON value holds, by key or by index."""
    if isinstance(value, dict):
        return list(cast("dict[Any, Any]", value).items())
    return list(enumerate(cast("list[Any]", value))) if isinstance(value, list) else []


def objects(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all objects in a JSON value."""
    below = [objects(member, (*path, key)) for key, member in members(value)]
    return [*([path] if isinstance(value, dict) else []), *(found for paths in below for found in paths)]


@pytest.mark.parametrize("key", ["namespace", "reach"])
@pytest.mark.parametrize("tool", TOOLS)
async def test_r57_a_scope_in_the_arguments_is_refused_whatever_its_value_and_at_any_depth(
    engine: Any, tools: MemoryTools, tool: str, key: str
) -> None:
    for path in objects(TOOLS[tool]):
        for scope in BAD_SCOPES:
            arguments = with_key(TOOLS[tool], path, key, scope)
            # Before unknown keys: the model learns that it is the host's to say, not that it misspelt.
            arguments["unknown"] = 1
            refusal = f"{tool}: `{key}` is no argument: the host fixes it"
            with pytest.raises(InvalidRequestError, match=refusal):
                await tools.placed_at(WRITER).call(tool, arguments)
    assert engine.calls == []


async def test_a_scope_inside_lists_in_objects_in_lists_is_refused(engine: Any, tools: MemoryTools) -> None:
    nested: Any = {"reach": {"at": "root"}}
    for _ in range(5000):
        nested = [{"deeper": nested}]

    with pytest.raises(InvalidRequestError, match="the host fixes it"):
        await tools.call("memory_list", {"filter": {"tags_any": nested}})
    assert engine.calls == []


async def test_no_schema_has_a_scope_and_every_object_is_closed(tools: MemoryTools) -> None:
    def walk(schema: Any) -> None:
        if ("type", "object") in members(schema):
            assert schema["additionalProperties"] is False
            assert not {"namespace", "reach"} & set(schema["properties"])
        for _, member in members(schema):
            walk(member)

    for spec in tools.specs():
        walk(spec.parameters)
        assert "namespace" not in spec.parameters["properties"].get("facet", {}).get("enum", [])


async def test_the_namespace_is_never_rendered(tools: MemoryTools, ids: dict[str, str]) -> None:
    for tool, arguments in (
        ("memory_recall", {"question": "tide of"}),
        ("memory_fetch", {"query": "tide of"}),
        ("memory_list", {}),
        ("memory_get", {"ids": list(ids.values())}),
    ):
        result = await tools.call(tool, arguments)
        assert "team:acme" not in str(result)
        assert "namespace" not in str(result)


# Read-only tools.


async def test_read_only_tools_offer_no_writes_and_refuse_them_as_unsupported(
    engine: Any, tools: MemoryTools
) -> None:
    auditor = tools.placed_at("team:acme").with_reach(Reach.subtree("team:acme")).read_only()

    assert [spec.name for spec in auditor.specs()] == [
        "memory_recall",
        "memory_fetch",
        "memory_list",
        "memory_get",
        "memory_explore",
    ]
    for tool in ("memory_store", "memory_forget"):
        with pytest.raises(UnsupportedError, match="read-only"):
            await auditor.call(tool, TOOLS[tool])
    assert engine.calls == []
    assert tools.scope.writes
