"""Checks of the reads: get, explore, what filters select, and who sees whose memory."""

from collections import Counter
from typing import Any

from tinymemory.conformance.errors import promise
from tinymemory.conformance.lab import QUERY, Lab, ensure_same_ids, ids
from tinymemory.engine import Item, explore_page
from tinymemory.errors import UnsupportedError
from tinymemory.meta import ItemKind, MetaFilter
from tinymemory.namespace import Reach
from tinymemory.query import (
    MAX_GET_IDS,
    ExplorePage,
    ExploreRequest,
    Facet,
    FetchMode,
    FetchRequest,
    GetRequest,
    RecallRequest,
)

_UNKNOWN = "0" * 40
# Of a path on the writer's machine an engine may keep the name alone, or nothing.
_COUNTED = [facet for facet in Facet if facet not in (Facet.FOLDER, Facet.FILE_PATH)]

# Each field with a filter that selects the item that has it, and none of the others.
_FIELDS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"workspace": "desk-a"}, {"workspace": "desk-a"}),
    ({"folder": "/harbour/logs"}, {"folder": "/harbour/logs/"}),
    ({"folder": "/harbour/logs-old"}, {"folder": "/harbour/logs-old"}),
    ({"file_path": "/harbour/tide/may.txt"}, {"file_path": "/harbour/tide"}),
    ({"file_path": "/harbour/tides.txt"}, {"file_path": "/harbour/tides.txt"}),
    ({"language": "fr"}, {"language": "fr"}),
    ({"repo": "acme/harbour"}, {"repo": "acme/harbour"}),
    ({"commit": "c0ffee"}, {"commit": "c0ffee"}),
    ({"url": "https://acme.example/a"}, {"url": "https://acme.example/a"}),
    ({"thread_id": "thread-a"}, {"thread_id": "thread-a"}),
    ({"turns": {"first": 1, "last": 2}}, {"turns": {"first": 1, "last": 2}}),
    ({"turns": {"first": 1, "last": 3}}, {"turns": {"first": 1, "last": 3}}),
    ({"agent_id": "keeper-a"}, {"agent_id": "keeper-a"}),
    ({"tool_call": {"name": "tide_table", "id": "1"}}, {"tool_call": "tide_table"}),
    ({"source": {"kind": "rss"}}, {"sources": ["rss", "composio"]}),
    ({"source": {"kind": "agent", "id": "feed-a"}}, {"source_id": "feed-a"}),
    ({"tags": ["spring", "neap"]}, {"tags_any": ["ebb", "neap"]}),
    ({"observed_at": "2026-03-04T12:00:00Z"}, {"observed_after": "2026-03-04T12:00:00Z"}),
    ({"observed_at": "2026-03-03T12:00:00Z"}, {"observed_before": "2026-03-04T12:00:00Z"}),
]


async def get(lab: Lab) -> None:
    """Get answers in the order named and leaves out what it does not know."""
    stored = await lab.fill([lab.learning(f"get {number}") for number in range(3)])
    asked = [stored[2], _UNKNOWN, stored[0], stored[1]]
    promise(
        ids(await lab.got(asked)) == [stored[2], stored[0], stored[1]],
        "get does not answer the known ids in the order named",
    )
    promise(await lab.got([_UNKNOWN]) == [], "get answers an id that was never stored")
    twice = ids(await lab.got([stored[0], stored[0]]))
    promise(set(twice) == {stored[0]}, "get does not find an id named twice")
    for what, request in (
        ("a get of no ids", GetRequest(ids=())),
        ("a get of a blank id", GetRequest(ids=(stored[0], " "))),
        ("a get of too many ids", GetRequest(ids=tuple(map(str, range(MAX_GET_IDS + 1))))),
    ):
        await lab.refused(what, lambda request=request: lab.engine.get(request))


async def explore(lab: Lab) -> None:
    """Explore counts what a plain count over the items would."""
    items: list[Item] = [
        lab.document("one", "team:a", tags=["x", "y"], language="en", source={"kind": "file", "id": "f"}),
        lab.document("two", "team:a", tags=["x"], url="https://acme.example/2", repo="acme/app"),
        lab.conversation("three", "team:b", thread_id="t", agent_id="a", tags=["x"]),
        lab.learning("four", tool_call={"name": "tide_table"}, workspace="desk"),
    ]
    await lab.fill(items)
    for facet in _COUNTED:
        request = ExploreRequest(facet=facet, filter=lab.filter(), limit=100)
        _ensure_counts(await lab.engine.explore(request), _counted(request, items), f"explore by {facet}")
    narrow = ExploreRequest(facet=Facet.TAG, filter=lab.filter(kinds=["document"]), limit=1)
    _ensure_counts(
        await lab.engine.explore(narrow), _counted(narrow, items[:2]), "explore of documents, one bucket,"
    )
    short = await lab.engine.explore(ExploreRequest(facet=Facet.KIND, filter=lab.filter(), scan_limit=2))
    promise(
        short.truncated and short.total == 2, "explore past its scan limit does not stop there and say so"
    )
    for field, value in (("limit", 0), ("limit", 501), ("scan_limit", 0), ("scan_limit", 50_001)):
        request = ExploreRequest.model_validate({"facet": "kind", "filter": lab.filter(), field: value})
        await lab.refused(
            f"an explore with `{field}` {value}", lambda request=request: lab.engine.explore(request)
        )


async def fetch_filters(lab: Lab) -> None:
    """In every declared mode each field selects exactly its item, and list agrees."""
    items: list[Item] = [lab.learning(f"field {n}", **meta) for n, (meta, _) in enumerate(_FIELDS)]
    kinds: list[Item] = [lab.document("kind"), lab.conversation("kind")]
    document, conversation, *learnings = await lab.fill([*kinds, *items])
    cases = [(wanted, [id_]) for (_, wanted), id_ in zip(_FIELDS, learnings, strict=True)]
    cases += [
        ({"kinds": ["document"]}, [document]),
        ({"kinds": ["document", "conversation"]}, [document, conversation]),
        ({"kinds": ["document"], "language": "fr"}, []),
        ({}, [document, conversation, *learnings]),
    ]
    for wanted, selected in cases:
        narrowed = lab.filter(**wanted)
        what = f"by {', '.join(f'`{field}`' for field in wanted) or 'its reach alone'}"
        ensure_same_ids(ids(await lab.listed(narrowed)), selected, f"a listing {what}")
        for mode in lab.engine.descriptor.fetch_modes:
            ensure_same_ids(ids(await lab.fetched(mode, narrowed)), selected, f"a {mode} fetch {what}")
    for mode in lab.engine.descriptor.fetch_modes:
        await _ensure_pages(lab, mode, learnings)
        await _ensure_fetch_refuses(lab, mode)


async def unsupported_modes(lab: Lab) -> None:
    """A mode that is not declared is unsupported, and nothing else."""
    await lab.store(lab.learning("mode"))
    for mode in FetchMode:
        if lab.engine.descriptor.supports(mode):
            continue
        try:
            await lab.fetched(mode)
        except UnsupportedError:
            continue
        promise(False, f"a {mode} fetch is not declared and was answered")


async def namespaces(lab: Lab) -> None:
    """Every read sees what its reach admits: not a sibling, not an ancestor unless it inherits."""
    places = ["", "team:a", "team:a/agent:w", "team:a/agent:r", "team:a/agent:w/project:p", "team:ab"]
    # The thread keeps out what others store at the root, where every inheriting reach ends.
    items: list[Item] = [lab.learning(f"at {place or 'top'}", place, thread_id=lab.name) for place in places]
    stored = dict(zip(await lab.fill(items), items, strict=True))
    team, writer = lab.at("team:a"), lab.at("team:a/agent:w")
    for reach in (
        *(Reach(team, inherit, descendants) for inherit in (True, False) for descendants in (True, False)),
        *(Reach.of(writer), Reach.exact(writer), Reach.subtree(writer), Reach.exact(lab.root)),
    ):
        admitted = [id_ for id_, item in stored.items() if reach.admits(item.meta.namespace)]
        await _ensure_confined(lab, reach, list(stored), admitted)


def _counted(request: ExploreRequest, items: list[Item]) -> ExplorePage:
    values = [request.facet.values(item.kind, item.meta) for item in items]
    counts = Counter(value for found in values for value in found)
    missing = sum(not found for found in values)
    return explore_page(request, counts, total=len(items), missing=missing, truncated=False)


def _ensure_counts(found: ExplorePage, wanted: ExplorePage, what: str) -> None:
    for field in ("facet", "buckets", "total", "missing", "more_buckets", "truncated"):
        same = getattr(found, field) == getattr(wanted, field)
        promise(same, f"{what} answers `{field}` as {getattr(found, field)}, not {getattr(wanted, field)}")


async def _ensure_pages(lab: Lab, mode: FetchMode, wanted: list[str]) -> None:
    request = FetchRequest(query=QUERY, mode=mode, filter=lab.filter(kinds=[ItemKind.LEARNING]), limit=7)
    found: list[str] = []
    for _ in range(len(wanted)):
        page = await lab.engine.fetch(request)
        promise(len(page.hits) <= request.limit, f"a {mode} fetch of 7 answered {len(page.hits)} hits")
        scores = [hit.score for hit in page.hits]
        promise(scores == sorted(scores, reverse=True), f"a {mode} fetch is not ordered by score")
        found += ids(page.hits)
        if page.next_cursor is None:
            break
        request = request.model_copy(update={"cursor": page.next_cursor})
    ensure_same_ids(found, wanted, f"a {mode} fetch in pages of 7")


async def _ensure_fetch_refuses(lab: Lab, mode: FetchMode) -> None:
    for what, field in (
        ("with a blank query", {"query": " "}),
        ("of no hits", {"limit": 0}),
        ("at an unknown cursor", {"cursor": "\x00 no cursor"}),
    ):
        request = FetchRequest.model_validate({"query": QUERY, "mode": mode, "filter": lab.filter(), **field})
        await lab.refused(f"a {mode} fetch {what}", lambda request=request: lab.engine.fetch(request))


async def _ensure_confined(lab: Lab, reach: Reach, stored: list[str], admitted: list[str]) -> None:
    confined = MetaFilter(reach=reach, thread_id=lab.name)
    depth = reach.at.depth - lab.root.depth
    what = f"{depth} deep with inherit={reach.inherit} and descendants={reach.descendants}"
    ensure_same_ids(ids(await lab.got(stored, reach)), admitted, f"a get {what}")
    ensure_same_ids(ids(await lab.listed(confined)), admitted, f"a listing {what}")
    for mode in lab.engine.descriptor.fetch_modes:
        ensure_same_ids(ids(await lab.fetched(mode, confined)), admitted, f"a {mode} fetch {what}")
    explored = await lab.engine.explore(ExploreRequest(facet=Facet.NAMESPACE, filter=confined, limit=100))
    promise(explored.total == len(admitted), f"an explore {what} counts other than what is admitted")
    # An answer may run a model, which is slow and costs money: two reaches have to do.
    if reach in (Reach.of(reach.at), Reach.exact(reach.at)) and depth == 2:
        recalled = await lab.engine.recall(RecallRequest(question=QUERY, filter=confined, limit=20))
        leaked = [cited.id for cited in recalled.citations if cited.id not in admitted]
        promise(not leaked, f"a recall {what} cites what is not admitted")
