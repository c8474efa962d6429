"""§9 items 128 to 134: what goes, and what must stay."""

from collections.abc import Callable
from typing import Any

import pytest

from tinymemory import (
    Conversation,
    Document,
    EngineError,
    ForgetTarget,
    InvalidRequestError,
    Learning,
    ListRequest,
    MemoryMeta,
    MetaFilter,
    NotFoundError,
    Reach,
    Turn,
    UnavailableError,
)
from tinymemory.engines.cortex import CortexEngine
from tinymemory.engines.cortex.surface import Surface
from tinymemory.items import DocumentBody, Role
from tinymemory.testing import CortexServer, RawAnswer

Connect = Callable[..., CortexEngine]
direct_only = pytest.mark.parametrize("wire", ["direct"])
hosted_only = pytest.mark.parametrize("wire", ["hosted"])


def learning(text: str, at: str = "root", **meta: Any) -> Learning:
    return Learning(text=text, meta=MemoryMeta.model_validate({"namespace": at, **meta}))


async def texts(engine: CortexEngine) -> list[str]:
    return sorted(hit.text for hit in (await engine.list(ListRequest(limit=100))).items)


async def test_forgetting_by_id_removes_every_turn_and_every_piece_in_whatever_namespace(
    server: CortexServer, connect: Connect
) -> None:
    # §9 item 128
    meta = MemoryMeta.model_validate({"namespace": "team:t/agent:a"})
    talk = Conversation(turns=tuple(Turn(role=Role.USER, text=f"turn {n}") for n in range(9)), meta=meta)
    guide = Document(title="Guide", body=DocumentBody(text="# One\na\n# Two\nb\n# Three\nc\n"))
    async with connect(server.url, chunk_target=0) as engine:
        await engine.store_many([talk, guide, learning("stays", "user:u")])
        ids = [talk.fingerprint(), guide.fingerprint(), talk.fingerprint(), "f" * 40]
        report = await engine.forget(ForgetTarget.ids(ids))

        assert report.forgotten == 2
        assert await texts(engine) == ["stays"]
    assert sum(len(body["selector"]["memory_ids"]) for body in server.seen.forgets) == 9 + 3


async def test_an_empty_id_list_and_an_empty_filter_are_invalid_and_send_nothing(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 129
    for target in (ForgetTarget.ids([]), ForgetTarget.filter(MetaFilter())):
        with pytest.raises(InvalidRequestError):
            await engine.forget(target)

    assert server.seen.requests == []


async def test_no_request_ever_has_an_empty_selector_or_confirms_all(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 130
    await engine.store_many(
        [learning("one", tags=["x"]), learning("two", "agent:a", tags=["x"]), learning("three")]
    )
    await engine.forget(ForgetTarget.filter(MetaFilter(tags_any=("x",))))
    await engine.forget(ForgetTarget.filter(MetaFilter(tags_any=("nobody",))))
    await engine.forget(ForgetTarget.ids(["0" * 40]))
    await engine.forget(ForgetTarget.filter(MetaFilter(reach=Reach.subtree("root"))))

    assert await texts(engine) == []
    assert len(server.seen.forgets) == 3
    for body in server.seen.forgets:
        assert set(body) == {"scope", "layers", "selector", "cascade", "audit_note"}
        assert len(body["selector"].pop("memory_ids")) >= 1
        assert body["selector"] == {}
        assert (body["layers"], body["cascade"], body["audit_note"]) == (
            ["events"],
            "redact_events",
            "tinymemory: forget",
        )


async def test_two_hundred_and_thirty_events_go_in_batches_of_a_hundred(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 131
    talk = Conversation(turns=tuple(Turn(role=Role.USER, text=f"turn {n}") for n in range(230)))
    await engine.store(talk)

    report = await engine.forget(ForgetTarget.ids([talk.fingerprint()]))

    assert report.forgotten == 1
    assert [len(body["selector"]["memory_ids"]) for body in server.seen.forgets] == [100, 100, 30]
    assert await texts(engine) == []


@hosted_only
async def test_a_hosted_forget_is_retried_and_a_404_on_the_retry_is_done(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 132
    await engine.store(learning("limited"))
    server.knobs.rate_limit_forgets = 2
    assert (await engine.forget(ForgetTarget.ids([learning("limited").fingerprint()]))).forgotten == 1
    assert server.seen.count("POST /memory/forget") == 3

    await engine.store(learning("applied"))
    server.knobs.forget_apply_then_fail = 1
    server.knobs.forget_missing_404 = True
    assert (await engine.forget(ForgetTarget.ids([learning("applied").fingerprint()]))).forgotten == 1
    assert await texts(engine) == []

    lines = zip(server.seen.headers, server.seen.requests, strict=True)
    claims = [headers["idempotency-key"] for headers, line in lines if line == "POST /memory/forget"]
    assert len(set(claims)) == len(claims) == 5


@hosted_only
async def test_a_hosted_forget_gives_up_after_three_attempts(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 132
    await engine.store(learning("limited"))
    server.knobs.rate_limit_forgets = 99

    with pytest.raises(UnavailableError):
        await engine.forget(ForgetTarget.ids([learning("limited").fingerprint()]))

    assert server.seen.count("POST /memory/forget") == 3


async def test_a_404_on_the_first_attempt_is_not_found(
    engine: CortexEngine, server: CortexServer, surface: Surface
) -> None:
    # §9 item 132
    await engine.store(learning("one"))
    server.knobs.raw_answers = {f"POST /{surface.forget}": [RawAnswer(404, {}, b"{}")]}

    with pytest.raises(NotFoundError):
        await engine.forget(ForgetTarget.ids([learning("one").fingerprint()]))


@direct_only
async def test_a_direct_forget_is_sent_once(engine: CortexEngine, server: CortexServer) -> None:
    # §9 item 132
    await engine.store(learning("limited"))
    server.knobs.rate_limit_forgets = 1

    with pytest.raises(UnavailableError):
        await engine.forget(ForgetTarget.ids([learning("limited").fingerprint()]))

    assert server.seen.count("POST /v1/forget") == 1
    assert not any("idempotency-key" in headers for headers in server.seen.headers)


async def test_forgetting_by_id_with_more_scopes_than_a_listing_holds_is_refused(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 133
    await engine.store(learning("stays"))
    server.knobs.padding_scopes = 1000

    with pytest.raises(EngineError, match="1000 scopes or more"):
        await engine.forget(ForgetTarget.ids([learning("stays").fingerprint()]))

    assert server.seen.forgets == []


async def test_a_filter_confined_by_a_reach_leaves_ancestors_and_siblings_alone(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 134
    places = ["root", "team:t", "team:t/agent:a", "team:t/agent:ab", "team:t/agent:a/project:p", "team:u"]
    await engine.store_many([learning(place, place, tags=["x"]) for place in places])

    exact = MetaFilter(reach=Reach.exact("team:t/agent:a"), tags_any=("x",))
    assert (await engine.forget(ForgetTarget.filter(exact))).forgotten == 1
    assert await texts(engine) == sorted(set(places) - {"team:t/agent:a"})

    subtree = MetaFilter(reach=Reach.subtree("team:t"))
    server.seen.clear()
    assert (await engine.forget(ForgetTarget.filter(subtree))).forgotten == 3
    read = [request for request in server.seen.requests if "scope=" in request]
    assert read
    assert all("scope=app%3Atinymemory%2Fteam%3At%2F" in request for request in read)
    assert await texts(engine) == ["root", "team:u"]


async def test_forgetting_by_a_window_takes_the_whole_of_an_item_one_of_whose_turns_is_in_it(
    engine: CortexEngine, server: CortexServer
) -> None:
    # §9 item 128: half of it was stored again under another time
    def talk(at: str) -> Conversation:
        turns = (Turn(role=Role.USER, text="one"), Turn(role=Role.USER, text="two"))
        return Conversation(turns=turns, meta=MemoryMeta.model_validate({"observed_at": at}))

    await engine.store(talk("2026-01-01T00:00:00Z"))
    server.log.lose_last(server.log.scopes()[0])
    await engine.store(talk("2026-03-01T00:00:00Z"))

    window = MetaFilter.model_validate({"observed_before": "2026-02-01T00:00:00Z"})
    assert (await engine.forget(ForgetTarget.filter(window))).forgotten == 1
    assert await texts(engine) == []
