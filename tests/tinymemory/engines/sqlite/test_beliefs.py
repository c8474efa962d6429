"""Beliefs: drawn from what changed, one for each fact, gone with what they rest on."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

from tinymemory import (
    BeliefsRequest,
    ConsolidateReceipt,
    ConsolidateRequest,
    Conversation,
    Document,
    Draft,
    ExploreRequest,
    Facet,
    FetchMode,
    FetchRequest,
    ForgetTarget,
    GetRequest,
    ItemKind,
    Learning,
    ListRequest,
    Material,
    MetaFilter,
    Namespace,
    Reach,
    SqliteEngine,
    UnavailableError,
)

EVERYWHERE = Reach.subtree(Namespace.ROOT)
AGENT = "team:acme/agent:writer"


def turn(text: str, index: int = 0, thread: str = "t", role: str = "user", at: str = AGENT) -> Conversation:
    meta = {"namespace": at, "thread_id": thread, "turns": {"first": index, "last": index}}
    return Conversation.model_validate({"turns": [{"role": role, "text": text}], "meta": meta})


def document(body: str, at: str = AGENT) -> Document:
    return Document.model_validate({"body": body, "meta": {"namespace": at}})


async def build(engine: SqliteEngine, reach: Reach = EVERYWHERE, *kinds: ItemKind) -> ConsolidateReceipt:
    return await engine.consolidate(ConsolidateRequest(reach=reach, kinds=kinds))


async def believed(engine: SqliteEngine, reach: Reach = EVERYWHERE, query: str | None = None) -> list[str]:
    hits = await engine.beliefs(BeliefsRequest(reach=reach, limit=50, query=query))
    return sorted(hit.text for hit in hits)


class Watched:
    """A distiller that notes what it is given, and does what a test wants in between."""

    id = "watched"

    def __init__(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.given: list[list[str]] = []
        self.meanwhile = meanwhile

    async def distill(self, material: Material) -> Sequence[Draft]:
        self.given.append([source.id for source in material.sources if source.is_new])
        result = self.meanwhile()
        if asyncio.iscoroutine(result):
            await result
        return [Draft(source.item.render_text(), (source.id,)) for source in material.sources]


@pytest.fixture
async def watched(path: Path) -> AsyncIterator[tuple[SqliteEngine, Watched]]:
    distiller = Watched()
    async with SqliteEngine(path, distiller=distiller) as engine:
        yield engine, distiller


async def test_the_default_believes_first_sentences_and_statements(engine: SqliteEngine) -> None:
    await engine.store(document("# Refunds\n\nRefunds take five days. More follows."))
    await engine.store(turn("Hello!", 0))
    await engine.store(turn("Hello, Ana Silva again. I am allergic to hazelnuts. Please note it.", 1))
    await engine.store(turn("Noted: no hazelnuts for you.", 2, role="assistant"))
    await engine.store(turn("Which day is my delivery?", 3))

    receipt = await build(engine)

    assert await believed(engine) == ["I am allergic to hazelnuts.", "Refunds take five days."]
    assert (receipt.built, receipt.scopes) == (2, 1)


async def test_a_time_within_a_sentence_is_no_mark_of_a_list(engine: SqliteEngine) -> None:
    await engine.store(document("1. It was down from 06:00 to 06:09. Then it ran."))
    await build(engine)

    assert await believed(engine) == ["It was down from 06:00 to 06:09."]


async def test_a_second_build_builds_nothing(engine: SqliteEngine) -> None:
    await engine.store(document("Refunds take five days."))
    await build(engine)

    assert (await build(engine)).built == 0


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("The budget is 5000 euros.", "The budget is 7000 euros."),
        ("The launch is on Monday.", "Actually, the launch moved to Tuesday."),
        ("I prefer window seats.", "Actually I prefer aisle seats now."),
        ("I live in Berlin.", "I moved to Hamburg last week."),
        ("My favourite colour is blue.", "My favourite colour is green."),
        ("Our standup starts at 9:00.", "Correction: our standup starts at 9:30."),
        ("Deliver to Rua da Saudade 12.", "From now on deliver to Avenida Todi 40."),
    ],
)
async def test_the_newest_value_wins_in_a_thread(engine: SqliteEngine, older: str, newer: str) -> None:
    await engine.store(turn(older, 0))
    await build(engine)
    await engine.store(turn(newer, 2))
    await build(engine)

    assert await believed(engine) == [newer]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("I like green tea.", "I like black coffee."),
        ("I am allergic to hazelnuts.", "I am from Lisbon."),
        ("The budget is 5000 euros.", "The deadline is on Friday."),
        ("My sister lives in Rome.", "My brother lives in Oslo."),
    ],
)
async def test_what_is_about_another_thing_replaces_nothing(
    engine: SqliteEngine, one: str, other: str
) -> None:
    await engine.store(turn(one, 0))
    await engine.store(turn(other, 2))
    await build(engine)

    assert await believed(engine) == sorted([one, other])


async def test_a_fact_said_twice_is_believed_once(engine: SqliteEngine) -> None:
    for index, thread in ((0, "a"), (1, "a"), (0, "b")):
        await engine.store(turn("The budget is 5000 euros.", index, thread))
    await asyncio.gather(*(build(engine) for _ in range(3)))

    assert await believed(engine) == ["The budget is 5000 euros."]


async def test_beliefs_are_kept_apart_at_their_sources_node(engine: SqliteEngine) -> None:
    await engine.store(turn("The budget is 5000 euros."))
    await build(engine)

    (belief,) = await engine.beliefs(BeliefsRequest(reach=Reach.exact(AGENT), limit=5))
    assert belief.kind is ItemKind.LEARNING
    assert belief.meta.tags == ("belief",)
    assert str(belief.meta.namespace) == AGENT
    assert belief.confidence == 0.5
    assert await believed(engine, Reach.exact("team:acme")) == []
    assert [hit.kind for hit in (await engine.list(ListRequest())).items] == [ItemKind.CONVERSATION]
    assert (await engine.explore(ExploreRequest(facet=Facet.KIND))).total == 1
    assert await engine.get(GetRequest(ids=(belief.id,))) == []
    for mode in FetchMode:
        page = await engine.fetch(FetchRequest(query="budget euros", mode=mode, beliefs=3))
        assert [hit.kind for hit in page.hits] == [ItemKind.CONVERSATION]
        assert page.beliefs == [belief.model_copy(update={"score": page.beliefs[0].score})]


async def test_beliefs_are_ranked_for_a_query_and_confined_to_the_filters_reach(engine: SqliteEngine) -> None:
    for text, at in (
        ("Cats sleep all day.", "team:a"),
        ("Dogs bark at night.", "team:a"),
        ("Cats purr.", "team:b"),
    ):
        await engine.store(document(text, at))
    await build(engine)

    assert await believed(engine, query="cat") == ["Cats purr.", "Cats sleep all day."]
    reach = MetaFilter(reach=Reach.exact("team:a"))
    page = await engine.fetch(FetchRequest(query="cat", filter=reach, beliefs=5))
    assert [hit.text for hit in page.beliefs] == ["Cats sleep all day."]


async def test_a_build_reads_only_what_changed(watched: tuple[SqliteEngine, Watched]) -> None:
    engine, distiller = watched
    first = await engine.store(document("one"))
    await build(engine)
    second = await engine.store(document("two"))
    third = await engine.store(turn("three"))
    await build(engine)
    fourth = await engine.store(turn("four", 1))
    await build(engine)

    assert distiller.given == [[first.id], [second.id], [third.id], [fourth.id]]


async def test_a_build_reads_only_its_reach_and_kinds(watched: tuple[SqliteEngine, Watched]) -> None:
    engine, distiller = watched
    await engine.store(document("elsewhere", "team:other"))
    await engine.store(turn("spoken"))
    written = await engine.store(document("written"))

    await build(engine, Reach.exact(AGENT), ItemKind.DOCUMENT)

    assert distiller.given == [[written.id]]


async def test_what_must_not_be_derived_from_is_not(engine: SqliteEngine) -> None:
    item = Document.model_validate({"body": "The budget is 1.", "meta": {"derive": False}})
    await engine.store(item)

    assert (await build(engine)).built == 0
    assert await engine.unbuilt(EVERYWHERE) == []


async def test_a_forgotten_source_takes_its_beliefs_along(engine: SqliteEngine) -> None:
    receipt = await engine.store(turn("The budget is 5000 euros."))
    await engine.store(turn("The deadline is on Friday.", 1))
    await build(engine)

    await engine.forget(ForgetTarget.ids([receipt.id]))

    assert await believed(engine) == ["The deadline is on Friday."]
    await build(engine)
    assert await believed(engine) == ["The deadline is on Friday."]


async def test_the_older_value_holds_again_when_the_newer_is_forgotten(engine: SqliteEngine) -> None:
    await engine.store(turn("The budget is 5000 euros."))
    newer = await engine.store(turn("The budget is 7000 euros.", 1))
    await build(engine)

    await engine.forget(ForgetTarget.ids([newer.id]))
    owed = await engine.unbuilt(EVERYWHERE)
    await build(engine)

    assert owed == [ConsolidateRequest(reach=Reach.exact(AGENT), kinds=(ItemKind.CONVERSATION,))]
    assert await believed(engine) == ["The budget is 5000 euros."]


async def test_what_another_source_says_too_is_believed_again(engine: SqliteEngine) -> None:
    one = await engine.store(turn("The budget is 5000 euros.", thread="a"))
    await engine.store(turn("The budget is 5000 euros.", thread="b"))
    await build(engine)

    await engine.forget(ForgetTarget.ids([one.id]))
    await build(engine)

    assert await believed(engine) == ["The budget is 5000 euros."]


async def test_r51_what_is_forgotten_before_its_build_reaches_no_distiller(
    watched: tuple[SqliteEngine, Watched],
) -> None:
    engine, distiller = watched
    await engine.store(turn("secret"))
    await engine.forget(ForgetTarget.filter(MetaFilter(thread_id="t")))

    await build(engine)

    assert distiller.given == []
    assert await engine.unbuilt(EVERYWHERE) == []


async def test_r51_what_is_forgotten_while_it_is_distilled_is_dropped(path: Path) -> None:
    distiller = Watched()
    async with SqliteEngine(path, distiller=distiller) as engine, SqliteEngine(path) as other:
        await engine.store(turn("kept", 0))
        secret = await engine.store(turn("secret", 1))
        distiller.meanwhile = lambda: other.forget(ForgetTarget.ids([secret.id]))
        receipt = await build(engine)
        distiller.meanwhile = lambda: None

        assert receipt.built == 0
        assert await believed(engine) == []
        assert len(await engine.unbuilt(EVERYWHERE)) == 1
        await build(engine)
        assert await believed(engine) == ["user: kept"]


async def test_a_write_during_a_build_leaves_its_scope_unbuilt(path: Path) -> None:
    distiller = Watched()
    async with SqliteEngine(path, distiller=distiller) as engine, SqliteEngine(path) as other:
        await engine.store(turn("one", 0))
        distiller.meanwhile = lambda: other.store(turn("two", 1))
        await build(engine)
        distiller.meanwhile = lambda: None

        assert len(await engine.unbuilt(EVERYWHERE)) == 1
        await build(engine)
        assert await engine.unbuilt(EVERYWHERE) == []
        assert await believed(engine) == ["user: one", "user: two"]


async def test_a_build_that_fails_keeps_what_it_built_and_owes_the_rest(path: Path) -> None:
    distiller = Watched()

    def fail_at_the_second() -> None:
        if len(distiller.given) == 2:
            raise UnavailableError("the model is away", retry_after=7)

    distiller.meanwhile = fail_at_the_second
    async with SqliteEngine(path, distiller=distiller) as engine:
        for text, at in (("one", "team:a"), ("two", "team:b"), ("three", "team:c")):
            await engine.store(document(text, at))
        with pytest.raises(UnavailableError) as raised:
            await build(engine)

        assert raised.value.retry_after == 7
        assert await believed(engine) == ["one"]
        assert [str(owed.reach.at) for owed in await engine.unbuilt(EVERYWHERE)] == ["team:b", "team:c"]


async def test_two_builds_at_once_leave_what_one_would(path: Path) -> None:
    distiller = Watched(lambda: asyncio.sleep(0.02))
    async with (
        SqliteEngine(path, distiller=distiller) as one,
        SqliteEngine(path, distiller=distiller) as other,
    ):
        for index in range(5):
            await one.store(turn(f"fact {index}", index, f"thread-{index}"))
        receipts = await asyncio.gather(build(one), build(other))

        assert sum(receipt.built or 0 for receipt in receipts) == 5
        assert len(await believed(one)) == 5
        assert await one.unbuilt(EVERYWHERE) == []


async def test_unbuilt_names_each_node_and_kind_within_reach(engine: SqliteEngine) -> None:
    await engine.store(turn("one"))
    await engine.store(document("two"))
    await engine.store(document("three", "team:other"))
    await engine.store(Learning(text="not a source"))

    owed = await engine.unbuilt(Reach.subtree("team:acme"))

    assert owed == [
        ConsolidateRequest(reach=Reach.exact(AGENT), kinds=(ItemKind.CONVERSATION,)),
        ConsolidateRequest(reach=Reach.exact(AGENT), kinds=(ItemKind.DOCUMENT,)),
    ]


async def test_a_replay_leaves_nothing_unbuilt(engine: SqliteEngine) -> None:
    await engine.store(turn("The budget is 1."))
    await build(engine)
    await engine.store(turn("The budget is 1."))

    assert await engine.unbuilt(EVERYWHERE) == []
