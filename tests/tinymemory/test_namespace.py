"""Namespaces and reaches: what parses, what is ordered how, and what a read admits."""

import itertools
import pickle
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter, ValidationError

from tinymemory import InvalidRequestError, Namespace, Reach, Segment, SegmentKind

KINDS = ["agent", "team", "user", "ws", "project", "source"]

paths = st.lists(
    st.tuples(st.sampled_from(KINDS), st.text(alphabet="aZ09_-", min_size=1, max_size=4)).map(":".join),
    max_size=8,
).map("/".join)
namespaces = paths.map(Namespace.parse)


@given(paths)
def test_a_namespace_reads_back_from_its_text(path: str) -> None:
    ns = Namespace.parse(path)

    assert str(ns) == (path or "root")
    assert Namespace.parse(str(ns)) == ns
    assert hash(Namespace.parse(str(ns))) == hash(ns)
    assert pickle.loads(pickle.dumps(ns)) == ns


@pytest.mark.parametrize("text", ["", "root", "  root\n", "\u3000"])
def test_the_root_is_the_empty_path(text: str) -> None:
    ns = Namespace.parse(text)

    assert ns == Namespace.ROOT
    assert (str(ns), ns.depth, ns.is_root, ns.parent, ns.segments) == ("root", 0, True, None, ())


def test_blanks_around_a_path_are_dropped_and_no_others() -> None:
    assert str(Namespace.parse("\t team:acme/agent:writer ")) == "team:acme/agent:writer"
    with pytest.raises(InvalidRequestError):
        Namespace.parse("\x1cteam:acme")


@pytest.mark.parametrize(
    "text",
    [
        "team",
        "team:",
        ":acme",
        "Team:acme",
        "workspace:w",
        "service:x",
        "team:acme/",
        "/team:acme",
        "team:acme//agent:a",
        "team:a b",
        "team:é",
        "team:a:b",
        "root/team:acme",
        "team:acme\n/agent:a",
        "team:" + "x" * 129,
        "/".join(["team:a"] * 9),
        "null",
    ],
)
def test_a_malformed_path_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequestError):
        Namespace.parse(text)


def test_eight_segments_and_128_characters_are_the_most() -> None:
    assert Namespace.parse("/".join(["team:a"] * 8)).depth == 8
    assert Namespace.parse("team:" + "x" * 128).depth == 1
    with pytest.raises(InvalidRequestError):
        Namespace.parse("/".join(["team:a"] * 8)).child(Segment(SegmentKind.AGENT, "a"))


@pytest.mark.parametrize(
    "build",
    [
        lambda: Namespace.parse(None),  # pyright: ignore[reportArgumentType]
        lambda: Namespace.parse(7),  # pyright: ignore[reportArgumentType]
        lambda: Namespace(["team:acme"]),  # pyright: ignore[reportArgumentType]
        lambda: Segment("nobody", "a"),  # pyright: ignore[reportArgumentType]
        lambda: Segment(SegmentKind.TEAM, 7),  # pyright: ignore[reportArgumentType]
        lambda: Segment(SegmentKind.TEAM, ""),
        lambda: Reach(at=7),  # pyright: ignore[reportArgumentType]
        lambda: Reach(inherit="no"),  # pyright: ignore[reportArgumentType]
    ],
)
def test_constructors_refuse_what_is_none_of_theirs(build: Callable[[], object]) -> None:
    with pytest.raises(InvalidRequestError):
        build()


def test_a_workspace_is_ws_in_a_path_and_workspace_as_a_value() -> None:
    segment = Segment(SegmentKind.WORKSPACE, "w")

    assert str(segment) == "ws:w"
    assert Segment.parse("ws:w") == segment
    assert SegmentKind.WORKSPACE.value == "workspace"
    assert [kind.path_name for kind in SegmentKind] == KINDS


@given(st.text(max_size=200))
def test_sanitizing_never_fails_and_is_a_fixed_point(raw: str) -> None:
    segment = Segment.sanitized(SegmentKind.AGENT, raw)

    assert Segment.parse(str(segment)) == segment
    assert Segment.sanitized(SegmentKind.AGENT, segment.id) == segment


def fnv1a(raw: str) -> str:
    hashed = 2166136261
    for byte in raw.encode():
        hashed = ((hashed ^ byte) * 16777619) % 2**32
    return f"{hashed:08x}"


@pytest.mark.parametrize(
    ("raw", "id_"),
    [
        ("writer-1_A", "writer-1_A"),
        ("", "_"),
        ("a b", f"a-b-{fnv1a('a b')}"),
        ("café-42", f"caf--42-{fnv1a('café-42')}"),
        (" ", f"--{fnv1a(' ')}"),
        ("x" * 128, "x" * 128),
        ("x" * 129, f"{'x' * 119}-{fnv1a('x' * 129)}"),
    ],
)
def test_a_sanitized_id_keeps_what_it_can_and_ends_in_its_hash(raw: str, id_: str) -> None:
    assert Segment.sanitized(SegmentKind.AGENT, raw).id == id_


def test_the_hash_is_32_bit_fnv_1a() -> None:
    assert (fnv1a(""), fnv1a("a"), fnv1a("foobar")) == ("811c9dc5", "e40c292c", "bf9cf968")


def test_different_raw_texts_never_become_one_id_not_even_two_unicode_forms_of_a_name() -> None:
    composed, decomposed = "caf\u00e9-42", "cafe\u0301-42"

    ids = {Segment.sanitized(SegmentKind.AGENT, raw).id for raw in (composed, decomposed, f"{composed} ")}

    assert len(ids) == 3


def test_namespaces_are_ordered_by_kind_then_id_and_a_prefix_comes_first() -> None:
    ordered = [
        "root",
        "agent:a",
        "agent:b",
        "team:a",
        "team:a/agent:z",
        "team:a/team:a",
        "team:b",
        "user:a",
        "ws:a",
        "project:a",
        "source:a",
    ]

    assert [str(ns) for ns in sorted(map(Namespace.parse, reversed(ordered)))] == ordered


@given(namespaces, namespaces)
def test_order_agrees_with_equality(one: Namespace, other: Namespace) -> None:
    assert (one < other) + (other < one) + (one == other) == 1
    assert (one <= other) == (one < other or one == other)


@given(namespaces)
def test_ancestors_run_from_the_root_to_the_namespace_itself(ns: Namespace) -> None:
    line = ns.ancestors_and_self()

    assert line[0] == Namespace.ROOT
    assert line[-1] == ns
    assert len(line) == ns.depth + 1
    assert all(child.parent == parent for parent, child in itertools.pairwise(line))
    assert all(ns.is_within(ancestor) for ancestor in line)


def test_a_longer_name_of_the_same_beginning_is_no_descendant() -> None:
    assert not Namespace.parse("team:acme2").is_within(Namespace.parse("team:acme"))
    assert Namespace.parse("team:acme").is_within(Namespace.parse("team:acme"))
    assert not Namespace.ROOT.is_within(Namespace.parse("team:acme"))


def test_a_namespace_is_immutable() -> None:
    ns = Namespace.parse("team:acme")

    with pytest.raises(AttributeError):
        ns.segments = ()  # pyright: ignore[reportAttributeAccessIssue]


class Holder(BaseModel):
    ns: Namespace = Namespace.ROOT
    reach: Reach | None = None


def test_a_field_reads_and_writes_the_text() -> None:
    holder = Holder.model_validate({"ns": "team:acme"})

    assert holder.ns == Namespace.parse("team:acme")
    assert holder.model_dump(mode="json") == {"ns": "team:acme", "reach": None}
    assert Holder.model_validate_json(holder.model_dump_json()) == holder
    with pytest.raises(InvalidRequestError):
        Holder.model_validate({"ns": "nonsense"})


# The reach algebra, over a tree of three ids a level, three levels deep below an eight-deep branch.
TREE = [
    Namespace.parse("/".join(path))
    for depth in range(4)
    for path in itertools.product(["team:a", "agent:b"], repeat=depth)
]
REACHES = [
    Reach(at, inherit, descendants)
    for at in TREE
    for inherit, descendants in itertools.product([False, True], repeat=2)
]


def admitted(reach: Reach, tree: list[Namespace]) -> set[Namespace]:
    """The definition, word for word."""
    return {
        ns
        for ns in tree
        if ns == reach.at
        or (reach.inherit and reach.at != ns and reach.at.is_within(ns))
        or (reach.descendants and ns != reach.at and ns.is_within(reach.at))
    }


@pytest.mark.parametrize("reach", REACHES, ids=str)
def test_a_reach_admits_itself_and_what_its_flags_say(reach: Reach) -> None:
    assert {ns for ns in TREE if reach.admits(ns)} == admitted(reach, TREE)


@pytest.mark.parametrize("reach", REACHES, ids=str)
def test_the_nodes_are_what_it_admits_above_and_at_its_place(reach: Reach) -> None:
    above = [ns for ns in reach.at.ancestors_and_self() if reach.admits(ns)]

    assert reach.nodes() == above


# One level deeper than any `at`, so that what lies below the leaves is seen as well.
WHOLE_TREE = TREE + [
    ns.child(Segment.parse(step)) for ns in TREE if ns.depth == 3 for step in ("team:a", "agent:b")
]


def test_one_reach_covers_another_exactly_when_it_admits_all_that_one_admits() -> None:
    seen = {reach: admitted(reach, WHOLE_TREE) for reach in REACHES}

    for one, other in itertools.product(REACHES, repeat=2):
        assert one.covers(other) == (seen[other] <= seen[one]), (one, other)


def test_at_the_greatest_depth_nothing_lies_below() -> None:
    deepest = Namespace.parse("/".join(["team:a"] * 8))

    assert Reach.exact(deepest).covers(Reach.subtree(deepest))
    assert Reach.of(deepest).covers(Reach(deepest, inherit=True, descendants=True))
    assert not Reach.exact("team:a").covers(Reach.subtree("team:a"))


@given(namespaces, st.booleans(), st.booleans())
def test_covering_is_reflexive_and_the_whole_tree_covers_all(
    at: Namespace, inherit: bool, descendants: bool
) -> None:
    reach = Reach(at, inherit, descendants)

    assert reach.covers(reach)
    assert Reach.subtree(Namespace.ROOT).covers(reach)


def test_a_sibling_is_never_admitted() -> None:
    writer, reader = Namespace.parse("team:acme/agent:writer"), Namespace.parse("team:acme/agent:reader")

    for reach in (Reach.of(writer), Reach.exact(writer), Reach.subtree(writer), Reach(writer, True, True)):
        assert not reach.admits(reader)


def test_the_makers_set_the_flags_and_the_default_reads_only_the_root() -> None:
    at = Namespace.parse("team:acme")

    assert Reach.of(at) == Reach(at, inherit=True, descendants=False)
    assert Reach.exact(at) == Reach(at, inherit=False, descendants=False)
    assert Reach.subtree(at) == Reach(at, inherit=False, descendants=True)
    assert Reach.of("team:acme") == Reach.of(at)
    assert [ns for ns in TREE if Reach().admits(ns)] == [Namespace.ROOT]


def test_a_reach_always_writes_three_fields_and_reads_missing_ones_as_its_defaults() -> None:
    adapter = TypeAdapter(Reach)

    assert adapter.dump_python(Reach(), mode="json") == {"at": "root", "inherit": True, "descendants": False}
    assert adapter.validate_python({}) == Reach()
    assert adapter.validate_json('{"at": "team:acme"}') == Reach.of("team:acme")
    assert Holder.model_validate({"reach": {"at": "team:acme", "inherit": False}}).reach == Reach.exact(
        "team:acme"
    )


@pytest.mark.parametrize(
    "data",
    [{"at": "team:a", "siblings": True}, {"inherit": "no"}, {"inherit": 0}, {"descendants": None}, "team:a"],
)
def test_a_reach_refuses_unknown_keys_and_flags_that_are_none(data: object) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Reach).validate_python(data)


@given(namespaces, st.booleans(), st.booleans())
def test_a_reach_comes_through_json_and_pickle(at: Namespace, inherit: bool, descendants: bool) -> None:
    adapter, reach = TypeAdapter(Reach), Reach(at, inherit, descendants)

    assert adapter.validate_json(adapter.dump_json(reach)) == reach
    assert pickle.loads(pickle.dumps(reach)) == reach


def test_a_namespace_or_a_segment_may_be_given_as_its_text() -> None:
    at = Namespace.parse("team:acme")

    assert at.child("agent:writer") == Namespace.parse("team:acme/agent:writer")
    assert at.child("agent:writer").is_within("team:acme")
    assert Reach.subtree("team:acme").admits("team:acme/agent:writer")
    assert not Reach.subtree("team:acme").admits("team:other")
    with pytest.raises(InvalidRequestError):
        at.child("writer")
