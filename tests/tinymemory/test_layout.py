"""Where things lie below a root, and what each filter admits."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from tinymemory import (
    BrainSource,
    InvalidRequestError,
    ItemKind,
    MemoryLayout,
    MetaFilter,
    Namespace,
    Reach,
    SourceKind,
)

ACME = MemoryLayout(Namespace.parse("team:acme"))
DEEP = "team:a/team:b/team:c/team:d/team:e/team:f/team:g"


def test_the_brain_lies_by_source_conversations_by_agent_and_learnings_at_the_root() -> None:
    assert str(ACME.brain("pdf")) == "team:acme/source:pdf"
    assert str(ACME.brain_collection("notion", "handbook")) == "team:acme/source:notion/project:handbook"
    assert str(ACME.conversations("support-01")) == "team:acme/agent:support-01"
    assert ACME.learnings == Namespace.parse("team:acme")


def test_a_layout_without_a_root_begins_at_the_root_of_the_tree() -> None:
    assert MemoryLayout() == MemoryLayout(Namespace.ROOT)
    assert str(MemoryLayout().conversations("a")) == "agent:a"


def test_ids_that_are_no_segments_are_sanitised() -> None:
    assert str(MemoryLayout().conversations("support 01")) == "agent:support-01-ab5c772b"
    assert str(MemoryLayout().conversations("")) == "agent:_"


def test_r35_an_id_in_composed_and_decomposed_unicode_is_one_scope() -> None:
    composed, decomposed = "caf\u00e9-42", "cafe\u0301-42"

    assert ACME.conversations(composed) == ACME.conversations(decomposed)
    assert ACME.brain(composed) == ACME.brain(decomposed)
    assert ACME.brain_collection("web", composed) == ACME.brain_collection("web", decomposed)


def test_r35_case_and_blanks_keep_agents_apart() -> None:
    scopes = {ACME.conversations(id_) for id_ in ("caf\u00e9-42", "caf\u00e9-42 ", "Caf\u00e9-42")}

    assert len(scopes) == 3


@given(st.text(max_size=200))
def test_any_agent_id_has_a_scope_whatever_its_unicode_form(id_: str) -> None:
    scopes = {ACME.conversations(unicodedata.normalize(form, id_)) for form in ("NFC", "NFD")}

    assert len(scopes) == 1
    assert scopes.pop().parent == ACME.root


def test_a_root_of_seven_segments_leaves_room_for_a_source_but_no_collection() -> None:
    layout = MemoryLayout(Namespace.parse(DEEP))

    assert layout.brain("pdf").depth == 8
    with pytest.raises(InvalidRequestError, match="at most 8 segments"):
        layout.brain_collection("pdf", "handbook")


def test_a_root_of_eight_segments_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="at most 7 segments deep, not 8"):
        MemoryLayout(Namespace.parse(f"{DEEP}/team:h"))


def test_the_text_of_a_root_does_for_the_root() -> None:
    assert MemoryLayout("team:acme") == ACME  # pyright: ignore[reportArgumentType]  # an untyped host
    with pytest.raises(InvalidRequestError, match="nonsense"):
        MemoryLayout("nonsense")  # pyright: ignore[reportArgumentType]  # an untyped host


def test_filters_reach_the_whole_subtree_and_name_the_kinds() -> None:
    root = Reach.subtree("team:acme")
    documents, conversations = (ItemKind.DOCUMENT,), (ItemKind.CONVERSATION,)

    assert ACME.brain_filter() == MetaFilter(reach=root, kinds=documents)
    assert ACME.brain_filter("md") == MetaFilter(
        reach=Reach.subtree("team:acme/source:markdown"), kinds=documents
    )
    assert ACME.conversations_filter() == MetaFilter(reach=root, kinds=conversations)
    assert ACME.conversations_filter("a") == MetaFilter(
        reach=Reach.subtree("team:acme/agent:a"), kinds=conversations
    )
    assert ACME.learnings_filter() == MetaFilter(reach=root, kinds=(ItemKind.LEARNING,))
    assert ACME.holistic_filter() == MetaFilter(reach=root)


def test_layouts_with_different_roots_never_see_each_other() -> None:
    other = MemoryLayout(Namespace.parse("team:acme-2"))
    nodes = [
        other.learnings,
        other.brain("pdf"),
        other.brain_collection("pdf", "x"),
        other.conversations("a"),
    ]

    for one in (ACME.brain_filter(), ACME.conversations_filter(), ACME.learnings_filter()):
        assert one.reach is not None
        assert not any(map(one.reach.admits, nodes))


@pytest.mark.parametrize(
    ("given", "id_", "kind"),
    [
        ("pdf", "pdf", SourceKind.FILE),
        ("PDF", "pdf", SourceKind.FILE),
        ("md", "markdown", SourceKind.FILE),
        ("Md", "markdown", SourceKind.FILE),
        ("Markdown", "markdown", SourceKind.FILE),
        ("files", "files", SourceKind.FILE),
        ("Notion", "notion", SourceKind.IMPORT),
        ("GitHub", "github", SourceKind.IMPORT),
        ("web", "web", SourceKind.IMPORT),
        ("Confluence", "Confluence", SourceKind.IMPORT),
        (" pdf", " pdf", SourceKind.IMPORT),
    ],
)
def test_known_sources_are_read_whatever_their_case_and_others_kept_as_given(
    given: str, id_: str, kind: SourceKind
) -> None:
    source = BrainSource(given)

    assert (source.id, str(source), source.source_kind) == (id_, id_, kind)
    assert ACME.brain(given) == ACME.brain(source)


@pytest.mark.parametrize("blank", ["", " ", "\u3000\n"])
def test_a_blank_source_is_refused(blank: str) -> None:
    with pytest.raises(InvalidRequestError, match="brain source"):
        BrainSource(blank)
    with pytest.raises(InvalidRequestError, match="brain source"):
        ACME.brain(blank)


def test_a_source_is_its_id_in_json() -> None:
    adapter = TypeAdapter(BrainSource)

    assert adapter.dump_json(BrainSource("MD")) == b'"markdown"'
    assert adapter.validate_json('"PDF"') == BrainSource.PDF
