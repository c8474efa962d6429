"""The embedded engine answers as the reference engine does, whatever is stored, filtered and forgotten."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tinymemory import (
    Document,
    DocumentBody,
    ExploreRequest,
    Facet,
    ForgetTarget,
    GetRequest,
    Hit,
    Learning,
    ListRequest,
    MemoryEngine,
    MemoryMeta,
    MetaFilter,
    Reach,
    ReferenceEngine,
    SqliteEngine,
)

# Few values, so that they meet; and those a careless SQL would read as something else.
_text = st.sampled_from(["a", "A", "a%", "_", "é", "e\u0301", "", "x'y", "\0", "+43 650 1234567", "日本"])
_path = st.sampled_from(["/a", "/a/", "/a/b", "/a/b/c.py", "/a/bc", "/a_b", "/A/b", "/", "", "a\U0010ffff"])
_namespace = st.sampled_from(
    ["root", "team:a", "team:a/agent:w", "team:a/agent:w/source:s", "team:a-b", "team:ab", "user:a"]
)
_instant = st.sampled_from(
    [
        "0001-01-01T00:00:00Z",
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:00:00.000001Z",
        "9999-12-31T23:59:59.999999Z",
    ]
)
_source = st.sampled_from(["file", "agent", "conversation"])
_turns = st.sampled_from([{"first": 0, "last": 0}, {"first": 0, "last": 3}, {"first": 3, "last": 3}])
_tags = st.lists(st.sampled_from(["x", "X", "y", "x\0", ""]), max_size=3)


def optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


_EXACT = dict.fromkeys(("workspace", "language", "repo", "commit", "url", "thread_id", "agent_id"), _text)
_held = optional(
    **_EXACT,
    namespace=_namespace,
    folder=_path,
    file_path=_path,
    turns=_turns,
    tags=_tags,
    observed_at=_instant,
    tool_call=st.fixed_dictionaries({"name": _text}),
    source=st.fixed_dictionaries({"kind": _source}, optional={"id": _text}),
)


@st.composite
def _items(draw: st.DrawFn) -> Learning | Document:
    meta = MemoryMeta.model_validate(draw(_held))
    text = draw(st.sampled_from(["one", "two", "drei"]))
    if draw(st.booleans()):
        return Document(body=DocumentBody(text=text), meta=meta)
    return Learning(text=text, confidence=draw(st.sampled_from([0.0, 0.5, 0.8])), meta=meta)


_reach = st.fixed_dictionaries({"at": _namespace, "inherit": st.booleans(), "descendants": st.booleans()})
_filter = optional(
    **_EXACT,
    reach=_reach,
    kinds=st.lists(st.sampled_from(["document", "learning"]), max_size=2, unique=True),
    sources=st.lists(_source, max_size=2),
    tags_any=_tags,
    folder=_path,
    file_path=_path,
    turns=_turns,
    tool_call=_text,
    source_id=_text,
    observed_after=_instant,
    observed_before=_instant,
).map(MetaFilter.model_validate)


async def listed(engine: MemoryEngine, wanted: MetaFilter) -> list[Hit]:
    hits: list[Hit] = []
    cursor: str | None = None
    while True:
        page = await engine.list(ListRequest(filter=wanted, limit=3, cursor=cursor))
        hits += page.items
        cursor = page.next_cursor
        if cursor is None:
            return hits


async def newest(engine: MemoryEngine, wanted: MetaFilter, except_within: Reach | None) -> list[Hit]:
    return [hit async for hit in engine.newest(wanted, except_within=except_within)]


async def agree(
    items: list[Learning | Document],
    filters: list[MetaFilter],
    except_within: Reach | None,
    facet: Facet,
    scan_limit: int,
) -> None:
    reference = ReferenceEngine()
    with tempfile.TemporaryDirectory() as folder:
        async with SqliteEngine(Path(folder) / "memory.db") as engine:
            for item in items:
                assert await engine.store(item) == await reference.store(item)
            for wanted in filters:
                hits = await listed(engine, wanted)
                assert hits == await listed(reference, wanted)
                assert await newest(engine, wanted, except_within) == await newest(
                    reference, wanted, except_within
                )
                explore = ExploreRequest(facet=facet, filter=wanted, scan_limit=scan_limit, limit=5)
                assert await engine.explore(explore) == await reference.explore(explore)
                if hits:
                    get = GetRequest(ids=tuple(hit.id for hit in hits[::-1]), reach=wanted.reach)
                    assert await engine.get(get) == await reference.get(get)
            for wanted in filters:
                if not wanted.is_empty:
                    target = ForgetTarget.filter(wanted)
                    assert await engine.forget(target) == await reference.forget(target)
                assert await listed(engine, MetaFilter()) == await listed(reference, MetaFilter())


@given(
    st.lists(_items(), min_size=1, max_size=8),
    st.lists(_filter, min_size=1, max_size=4),
    st.none() | _reach.map(Reach.model_validate),
    st.sampled_from(list(Facet)),
    st.integers(1, 6),
)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_lists_counts_gets_and_forgets_agree_with_the_reference(
    items: list[Learning | Document],
    filters: list[MetaFilter],
    except_within: Reach | None,
    facet: Facet,
    scan_limit: int,
) -> None:
    asyncio.run(agree(items, filters, except_within, facet, scan_limit))
