"""Each tool over a real engine: what it answers, and how that reads."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tinymemory import (
    Citation,
    Conversation,
    Document,
    EngineDescriptor,
    FetchMode,
    FetchPage,
    FetchRequest,
    GetRequest,
    InvalidRequestError,
    ItemKind,
    Learning,
    MemoryMeta,
    MemoryTools,
    RecallAnswer,
    RecallRequest,
    ReferenceEngine,
    UnavailableError,
    UnsupportedError,
)

FULL = MemoryMeta.model_validate(
    {
        "namespace": "team:acme",
        "workspace": "desk",
        "folder": "/logs",
        "file_path": "/logs/tide.txt",
        "language": "en",
        "repo": "acme/app",
        "commit": "c0ffee",
        "url": "https://acme.example/tide",
        "thread_id": "t-1",
        "turns": {"first": 0, "last": 1},
        "agent_id": "keeper",
        "tool_call": {"name": "tide_table"},
        "source": {"kind": "file", "id": "f-1"},
        "tags": ["tide"],
        "observed_at": "2026-09-15T09:01:00.25Z",
        "observed_actor": {"id": "ann"},
    }
)
SHOWN = {
    "source": {"kind": "file", "id": "f-1"},
    "file_path": "/logs/tide.txt",
    "url": "https://acme.example/tide",
    "thread_id": "t-1",
    "tags": ["tide"],
    "observed_at": "2026-09-15T09:01:00.250Z",
}


class Scripted(ReferenceEngine):
    """Answers what it is told to, and keeps what it was asked."""

    def __init__(self, answer: RecallAnswer | None = None) -> None:
        super().__init__()
        self.answer = answer
        self.asked: list[Any] = []
        self.modes: tuple[FetchMode, ...] = tuple(FetchMode)

    @property
    def descriptor(self) -> EngineDescriptor:
        return super().descriptor.model_copy(update={"fetch_modes": self.modes})

    async def recall(self, request: RecallRequest) -> RecallAnswer:
        self.asked.append(request)
        return self.answer or await super().recall(request)

    async def fetch(self, request: FetchRequest) -> FetchPage:
        self.asked.append(request)
        return await super().fetch(request)


async def test_a_hit_renders_without_what_a_model_has_no_use_for(
    engine: ReferenceEngine, tools: MemoryTools
) -> None:
    stored = await engine.store(Learning(text="the tide is high", confidence=0.123456, meta=FULL))

    (hit,) = (await tools.call("memory_fetch", {"query": "tide please now", "mode": "keyword"}))["hits"]

    assert hit == {
        "id": stored.id,
        "kind": "learning",
        "text": "the tide is high",
        "score": 0.3333,
        "confidence": 0.1235,
        "meta": SHOWN,
    }
    assert list(hit) == ["id", "kind", "text", "score", "confidence", "meta"]


async def test_what_is_unset_is_left_out(engine: ReferenceEngine, tools: MemoryTools) -> None:
    stored = await engine.store(Document.model_validate({"title": "T", "body": "tide"}))

    assert (await tools.call("memory_list"))["items"] == [
        {
            "id": stored.id,
            "kind": "document",
            "text": "# T\n\ntide",
            "score": 0.0,
            "meta": {"source": {"kind": "agent"}},
        }
    ]


async def test_a_citation_renders_with_its_score_when_there_is_one() -> None:
    citations = [
        Citation(id="a", kind=ItemKind.LEARNING, snippet="s", meta=FULL, score=0.66666),
        Citation(id="b", kind=ItemKind.DOCUMENT, snippet="d", meta=MemoryMeta()),
    ]
    tools = MemoryTools(Scripted(RecallAnswer(answer="yes", citations=citations, model="m-1")))

    assert await tools.call("memory_recall", {"question": "tide?"}) == {
        "answer": "yes",
        "citations": [
            {"id": "a", "kind": "learning", "snippet": "s", "score": 0.6667, "meta": SHOWN},
            {"id": "b", "kind": "document", "snippet": "d", "meta": {"source": {"kind": "agent"}}},
        ],
    }


async def test_recall_passes_the_question_the_instructions_and_the_limit_on() -> None:
    engine = Scripted(RecallAnswer(answer="x"))

    await MemoryTools(engine).call("memory_recall", {"question": "q", "instructions": "briefly", "limit": 3})
    await MemoryTools(engine).call("memory_recall", {"question": "q"})

    assert [(asked.question, asked.instructions, asked.limit) for asked in engine.asked] == [
        ("q", "briefly", 3),
        ("q", None, 10),
    ]


@pytest.mark.parametrize(
    ("modes", "usual"),
    [
        ((FetchMode.KEYWORD, FetchMode.HYBRID), FetchMode.HYBRID),
        ((FetchMode.VECTOR, FetchMode.KEYWORD), FetchMode.VECTOR),
    ],
)
async def test_with_no_mode_named_it_is_hybrid_or_else_the_engines_first(
    modes: tuple[FetchMode, ...], usual: FetchMode
) -> None:
    engine = Scripted()
    engine.modes = modes

    await MemoryTools(engine).call("memory_fetch", {"query": "tide", "mode": None})

    assert [asked.mode for asked in engine.asked] == [usual]


async def test_a_mode_the_engine_does_not_serve_is_refused_by_its_name() -> None:
    engine = Scripted()
    engine.modes = (FetchMode.HYBRID,)

    with pytest.raises(InvalidRequestError, match=r"memory_fetch: `mode` `keyword` is not a fetch mode"):
        await MemoryTools(engine).call("memory_fetch", {"query": "tide", "mode": "keyword"})


async def test_fetch_is_unsupported_on_an_engine_that_serves_no_mode() -> None:
    engine = Scripted()
    engine.modes = ()

    with pytest.raises(UnsupportedError, match="memory_fetch"):
        await MemoryTools(engine).call("memory_fetch", {"query": "tide"})


async def test_pages_follow_their_cursor_to_the_end(tools: MemoryTools) -> None:
    for number in range(5):
        await tools.call("memory_store", {"learning": {"text": f"tide {number}"}})

    for tool, name, arguments in (
        ("memory_list", "items", {"limit": 2}),
        ("memory_fetch", "hits", {"query": "tide", "mode": "keyword", "limit": 2}),
    ):
        texts: list[str] = []
        cursor: str | None = None
        for _ in range(3):
            page = await tools.call(tool, {**arguments, "cursor": cursor})
            texts += [hit["text"] for hit in page[name]]
            cursor = page.get("next_cursor")
        assert texts == [f"tide {number}" for number in range(5)]
        assert cursor is None
        with pytest.raises(InvalidRequestError):
            await tools.call(tool, {**arguments, "cursor": "made up"})


async def test_get_answers_in_order_and_names_what_is_missing_once(tools: MemoryTools) -> None:
    ids = [(await tools.call("memory_store", {"learning": {"text": text}}))["id"] for text in "ab"]

    result = await tools.call("memory_get", {"ids": [ids[1], "x", ids[0], "x", ids[1]]})

    assert [hit["id"] for hit in result["items"]] == [ids[1], ids[0]]
    assert result["missing"] == ["x"]


async def test_duplicates_do_not_count_against_the_most_ids_of_one_call(tools: MemoryTools) -> None:
    result = await tools.call("memory_get", {"ids": ["x"] * 500})

    assert result == {"items": [], "missing": ["x"]}


async def test_explore_answers_its_page(engine: ReferenceEngine, tools: MemoryTools) -> None:
    for number, tags in enumerate((["a", "b"], ["a"], [])):
        await tools.call("memory_store", {"learning": {"text": str(number)}, "tags": tags})

    assert await tools.call("memory_explore", {"facet": "tag", "limit": 1}) == {
        "facet": "tag",
        "buckets": [{"value": "a", "count": 2}],
        "total": 3,
        "missing": 1,
        "more_buckets": True,
        "truncated": False,
    }


async def test_a_learning_is_a_fact_of_confidence_eight_tenths_unless_said(
    engine: ReferenceEngine, tools: MemoryTools
) -> None:
    now = datetime(2026, 9, 15, 9, 1, tzinfo=UTC)
    plain = await tools.call("memory_store", {"learning": {"text": "tide"}})
    said = await tools.call(
        "memory_store",
        {
            "learning": {
                "text": "tide",
                "learning_kind": "preference",
                "confidence": 1,
                "evidence": "she said so",
            }
        },
    )

    usual = Learning(text="tide", confidence=0.8, meta=MemoryMeta(observed_at=now))
    assert plain["id"] == usual.fingerprint()
    assert said["id"] == (
        Learning.model_validate(
            {"text": "tide", "kind": "preference", "confidence": 1.0, "evidence": "she said so"}
        ).fingerprint()
    )


async def test_documents_and_conversations_are_stored_as_they_are(
    engine: ReferenceEngine, tools: MemoryTools
) -> None:
    document = await tools.call("memory_store", {"document": {"title": "T", "text": " b "}, "tags": ["a"]})
    talk = await tools.call("memory_store", {"conversation": {"turns": [{"role": "tool", "text": "{}"}]}})

    assert document["id"] == (
        Document.model_validate({"title": "T", "body": " b ", "meta": {"tags": ["a"]}}).fingerprint()
    )
    assert talk["id"] == (
        Conversation.model_validate({"turns": [{"role": "tool", "text": "{}"}]}).fingerprint()
    )
    assert len(await engine.get(GetRequest(ids=(document["id"], talk["id"])))) == 2


async def test_storing_the_same_again_is_a_replay_at_any_time(engine: ReferenceEngine) -> None:
    times = iter([datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)])
    tools = MemoryTools(engine, clock=lambda: next(times))

    first = await tools.call("memory_store", {"learning": {"text": "tide"}})
    second = await tools.call("memory_store", {"learning": {"text": "tide"}})

    assert (first["replayed"], second["replayed"]) == (False, True)
    assert first["id"] == second["id"]


# Days the question is about.


@pytest.fixture
async def dated(engine: ReferenceEngine) -> None:
    for text, at in (
        ("tide tide", "2026-09-14T23:30:00Z"),
        ("tide far", "2026-09-15T23:30:00Z"),
        ("tide undated", None),
    ):
        await engine.store(Learning(text=text, meta=MemoryMeta.model_validate({"observed_at": at})))


@pytest.mark.usefixtures("dated")
@pytest.mark.parametrize(
    ("zone", "day", "first"),
    [
        (None, "2026-09-14", "tide tide"),
        (None, "2026-09-15", "tide far"),
        ("Europe/Vienna", "2026-09-15", "tide tide"),
        ("Europe/Vienna", "2026-09-16", "tide far"),
        ("America/New_York", "2026-09-14", "tide tide"),
        ("America/New_York", "2026-09-15", "tide far"),
    ],
)
async def test_refers_to_is_read_in_the_hosts_zone_and_drops_nothing(
    tools: MemoryTools, zone: str | None, day: str, first: str
) -> None:
    zoned = tools if zone is None else tools.in_zone(zone)
    searched = {"query": "tide tide", "mode": "keyword", "refers_to": {"from": day}}
    asked = {"question": "tide tide", "refers_to": {"from": day, "to": day}}

    hits = (await zoned.call("memory_fetch", searched))["hits"]
    answer = await zoned.call("memory_recall", asked)

    assert hits[0]["text"] == first
    assert len(hits) == 3
    assert answer["citations"][0]["snippet"] == first


def test_a_zone_that_is_none_is_refused_when_the_tools_are_built(tools: MemoryTools) -> None:
    with pytest.raises(InvalidRequestError):
        tools.in_zone("Europe/Atlantis")
    assert tools.in_zone("Europe/Vienna").placed_at("team:acme").zone == "Europe/Vienna"


# Errors of the engine.


class Busy(ReferenceEngine):
    async def recall(self, request: RecallRequest) -> RecallAnswer:
        raise UnavailableError("busy", retry_after=2.0)


async def test_whatever_the_engine_raises_comes_through() -> None:
    with pytest.raises(UnavailableError, match="busy"):
        await MemoryTools(Busy()).call("memory_recall", {"question": "tide"})
