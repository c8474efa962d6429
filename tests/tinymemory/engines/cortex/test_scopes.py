"""§9 items 146 to 150: which scopes are read, and whose they are."""

import logging
from typing import Any

import pytest

from tinymemory import (
    BeliefsRequest,
    ConsolidateRequest,
    EngineError,
    ForgetTarget,
    ItemKind,
    Learning,
    ListRequest,
    MemoryMeta,
    MetaFilter,
    Namespace,
    Reach,
)
from tinymemory.engines.cortex import CortexEngine
from tinymemory.engines.cortex.scope import Scope, parse_scope
from tinymemory.engines.cortex.surface import Surface
from tinymemory.testing import CortexServer, raw

direct_only = pytest.mark.parametrize("wire", ["direct"])
hosted_only = pytest.mark.parametrize("wire", ["hosted"])


def learning(text: str, at: str = "root") -> Learning:
    return Learning(text=text, meta=MemoryMeta.model_validate({"namespace": at}))


@hosted_only
async def test_a_tenant_prefix_is_invisible_in_namespaces_and_never_sent(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 146
    await engine.store(learning("tide", "agent:a"))
    [hit] = (await engine.list(ListRequest())).items
    server.log.build(server.log.scopes()[0])
    [belief] = await engine.beliefs(BeliefsRequest(query="tide"))
    await engine.forget(ForgetTarget.ids([hit.id]))

    assert str(hit.meta.namespace) == "agent:a"
    assert str(belief.meta.namespace) == "agent:a"
    bodies = [*server.seen.writes, *server.seen.recalls, *server.seen.forgets]
    assert all(body["scope"].startswith("app:tinymemory/") for body in bodies)
    assert not any("org%3A" in request for request in server.seen.requests)


@pytest.mark.parametrize("reach", [Reach(), Reach.of("team:t/agent:a"), Reach.exact("agent:a")])
async def test_a_reach_without_descendants_asks_for_no_scopes(
    engine: CortexEngine, server: CortexServer, surface: Surface, reach: Reach
) -> None:
    # §9 item 147
    await engine.list(ListRequest(filter=MetaFilter(reach=reach)))

    assert server.seen.count(f"GET /{surface.scopes}") == 0
    assert server.seen.count(f"GET /{surface.events}") == 3 * len(reach.nodes())


async def test_a_subtree_asks_once_under_its_own_node(
    engine: CortexEngine, server: CortexServer, surface: Surface
) -> None:
    # §9 item 147
    await engine.list(ListRequest(filter=MetaFilter(reach=Reach.subtree("team:t/agent:a"))))
    await engine.list(ListRequest())

    asked = [request for request in server.seen.requests if request.startswith(f"GET /{surface.scopes}")]
    assert asked == [
        f"GET /{surface.scopes}?prefix=app%3Atinymemory%2Fteam%3At%2Fagent%3Aa&limit=1000",
        f"GET /{surface.scopes}?prefix=app%3Atinymemory&limit=1000",
    ]


async def test_a_listing_of_a_thousand_scopes_is_a_warning_for_reads_and_an_error_where_all_must_be_seen(
    engine: CortexEngine, server: CortexServer, surface: Surface, caplog: pytest.LogCaptureFixture
) -> None:
    # §9 item 148
    entries = [{"path": f"app:tinymemory/agent:a{number}/app:documents"} for number in range(1000)]
    answer = raw.json_answer({"items": entries, "success": True, "data": {"items": entries}})
    server.knobs.raw_answers = {f"GET /{surface.scopes}": [answer, answer]}
    everything = MetaFilter(kinds=(ItemKind.LEARNING,))
    caplog.set_level(logging.WARNING, "tinymemory")

    assert (await engine.list(ListRequest(filter=everything))).items == []
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    with pytest.raises(EngineError):
        await engine.forget(ForgetTarget.ids(["0" * 40]))


@direct_only
async def test_a_truncated_listing_does_not_hide_the_node_a_build_is_for(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 148
    await engine.store(learning("tide", "user:zoe"))
    server.knobs.padding_scopes = 1000

    exact = await engine.consolidate(ConsolidateRequest(reach=Reach.exact("user:zoe")))
    inheriting = await engine.consolidate(ConsolidateRequest(reach=Reach.of("user:zoe")))

    assert (exact.scopes, inheriting.scopes) == (1, 1)


async def test_a_server_without_a_scope_listing_still_serves_the_root(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 149
    server.knobs.scope_listing_missing = True
    await engine.store(learning("tide"))

    assert [hit.text for hit in (await engine.list(ListRequest())).items] == ["tide"]
    assert (await engine.forget(ForgetTarget.ids([learning("tide").fingerprint()]))).forgotten == 1


@pytest.mark.parametrize(
    "path",
    [
        "", "app:tinymemory", "app:other/app:documents", "app:tinymemory/app:facts", "app:tinymemory/agent:a",
        "app:tinymemory/service:s/app:documents", "app:tinymemory/agent:a b/app:documents",
        "app:tinymemory/" + "agent:a/" * 9 + "app:documents", "app:tinymemory//app:documents",
        "app:tinymemory/app:documents/", "xapp:tinymemory/app:documents", "app:tinymemory2/app:documents",
        "app:tinymemory/workspace:w/app:documents", "app:tinymemory/root/app:documents",
    ],
)  # fmt: skip
def test_a_foreign_path_is_none_of_ours(path: str) -> None:
    # §9 item 150
    assert parse_scope(path) is None


@pytest.mark.parametrize("prefix", ["", "org:t/", "org:t/dept:d/"])
def test_our_paths_are_read_back_behind_any_tenant(prefix: str) -> None:
    # §9 items 146 and 150
    scope = Scope(ItemKind.LEARNING, Namespace.parse("team:acme/ws:w/" + "/".join(["agent:a"] * 6)))

    assert parse_scope(prefix + scope.path) == scope


async def test_foreign_entries_of_a_listing_are_skipped(
    engine: CortexEngine, server: CortexServer, surface: Surface
) -> None:
    # §9 item 150
    entries: list[Any] = [
        "app:tinymemory/agent:a/app:learnings", {"path": "app:tinymemory/agent:b/app:learnings"}, 7, None, {},
        {"path": 7}, "app:tinymemory/service:s/app:learnings", "app:elsewhere/app:learnings",
    ]  # fmt: skip
    for name in ("items", "scopes"):
        answer = raw.json_answer({name: entries, "success": True, "data": {name: entries}})
        server.knobs.raw_answers = {f"GET /{surface.scopes}": [answer]}
        server.seen.clear()
        await engine.list(ListRequest(filter=MetaFilter(kinds=(ItemKind.LEARNING,))))
        listings = [request for request in server.seen.requests if "scope=" in request]
        listed = [request.split("scope=")[1].split("&")[0] for request in listings]
        assert listed == [
            "app%3Atinymemory%2Fapp%3Alearnings",
            "app%3Atinymemory%2Fagent%3Aa%2Fapp%3Alearnings",
            "app%3Atinymemory%2Fagent%3Ab%2Fapp%3Alearnings",
        ]


def test_scopes_are_ordered_by_kind_and_then_by_namespace() -> None:
    places = ("source:s", "root", "agent:b", "team:t", "agent:a", "agent:a/user:u")
    scopes = [Scope(kind, Namespace.parse(at)) for at in places for kind in reversed(ItemKind)]

    assert [str(scope.namespace) for scope in sorted(scopes)[:6]] == [
        "root",
        "agent:a",
        "agent:a/user:u",
        "agent:b",
        "team:t",
        "source:s",
    ]
    assert [scope.kind for scope in sorted(scopes)][::6] == list(ItemKind)
