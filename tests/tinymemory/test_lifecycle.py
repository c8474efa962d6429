"""What a host calls around each turn: what is stored, what is read, and that memory never fails a turn."""

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinymemory import (
    AgentMemory,
    BrainDocument,
    BuildBeliefs,
    ConsolidateRequest,
    ContextPack,
    Conversation,
    EngineDescriptor,
    EngineError,
    FetchPage,
    FetchRequest,
    GetRequest,
    Hit,
    InvalidRequestError,
    ItemKind,
    Learning,
    ListRequest,
    MemoryLayout,
    MemoryMeta,
    MetaFilter,
    Namespace,
    OutcomeKind,
    Reach,
    RecallPolicy,
    ReferenceEngine,
    Role,
    SkippedSection,
    SourceKind,
    SourceRef,
    StoreReceipt,
    ToolCallRef,
    Turn,
    TurnRange,
    UnavailableError,
    WaitFor,
)
from tinymemory.testing.watched import WatchedEngine
from tinymemory.text import is_blank, trimmed

LAYOUT = MemoryLayout(Namespace.parse("team:acme"))
NODE = Namespace.parse("team:acme/agent:support-01")
AT = datetime(2026, 9, 15, 9, 1, tzinfo=UTC)
HEADINGS = ("Learnings", "Brain", "This agent's history", "Team conversations")


@pytest.fixture
def engine() -> WatchedEngine:
    return WatchedEngine(ReferenceEngine())


@pytest.fixture
def memory(engine: WatchedEngine) -> AgentMemory:
    return AgentMemory(engine, LAYOUT, "support-01")


@pytest.fixture
def colleague(engine: WatchedEngine) -> AgentMemory:
    return AgentMemory(engine, LAYOUT, "coder-42")


async def stored(engine: WatchedEngine, id_: str) -> Hit:
    [hit] = await engine.inner.get(GetRequest(ids=(id_,)))
    return hit


async def count(engine: WatchedEngine) -> int:
    return len((await engine.inner.list(ListRequest(limit=1000))).items)


def headings(pack: ContextPack) -> tuple[str, ...]:
    return tuple(section.heading for section in pack.sections)


async def fill(memory: AgentMemory, colleague: AgentMemory) -> None:
    """One item for each standard section, all about refunds."""
    await memory.engine.store(Learning(text="refunds need a receipt", meta=MemoryMeta(namespace=LAYOUT.root)))
    await memory.brain().ingest(BrainDocument("pdf", "refunds take five days"))
    await memory.pre_turn("old", 0, "refunds were asked for", at=AT)
    await colleague.pre_turn("theirs", 0, "refunds are in the code", at=AT)


# --- the agent and its policy


@pytest.mark.parametrize("agent_id", ["", " ", "\u3000"])
def test_a_blank_agent_id_is_refused(engine: WatchedEngine, agent_id: str) -> None:
    with pytest.raises(InvalidRequestError, match="agent_id"):
        AgentMemory(engine, LAYOUT, agent_id)


@pytest.mark.parametrize(
    ("policy", "named"),
    [
        (RecallPolicy(budget_tokens=0), "budget_tokens"),
        (RecallPolicy(learnings_limit=-1), "learnings_limit"),
        (RecallPolicy(team_limit=-1), "team_limit"),
        (RecallPolicy(build_beliefs_every=-1), "build_beliefs_every"),
    ],
)
def test_a_policy_that_cannot_work_is_refused(
    engine: WatchedEngine, policy: RecallPolicy, named: str
) -> None:
    with pytest.raises(InvalidRequestError, match=named):
        AgentMemory(engine, LAYOUT, "a", policy)


def test_a_policy_has_its_documented_defaults_and_is_readable() -> None:
    policy = RecallPolicy()
    memory = AgentMemory(ReferenceEngine(), LAYOUT, "a")

    assert policy.model_dump() == {
        "budget_tokens": 1200,
        "learnings_limit": 8,
        "brain_limit": 6,
        "history_limit": 6,
        "team_limit": 3,
        "build_beliefs_every": 10,
    }
    assert (memory.policy, memory.layout, memory.agent_id) == (policy, LAYOUT, "a")


async def test_r35_an_agent_in_composed_and_decomposed_unicode_is_one_agent(engine: WatchedEngine) -> None:
    composed, decomposed = (AgentMemory(engine, LAYOUT, id_) for id_ in ("caf\u00e9-42", "cafe\u0301-42"))

    first = await composed.pre_turn("t", 0, "refunds?", at=AT)
    again = await decomposed.pre_turn("t", 0, "refunds?", at=AT)
    recalled = await decomposed.recall("refunds")

    assert first.logged is not None
    assert again.logged == StoreReceipt(id=first.logged.id, replayed=True)
    assert recalled.refs == [first.logged.id]
    assert composed.history_build() == decomposed.history_build()
    assert composed.agent_id == decomposed.agent_id == "caf\u00e9-42"


@pytest.mark.parametrize("other", ["caf\u00e9-42 ", "Caf\u00e9-42"])
async def test_r35_agents_that_differ_in_case_or_blanks_are_two(engine: WatchedEngine, other: str) -> None:
    one, two = AgentMemory(engine, LAYOUT, "caf\u00e9-42"), AgentMemory(engine, LAYOUT, other)

    await one.pre_turn("t", 0, "refunds?", at=AT)
    pack = await two.recall("refunds")

    assert headings(pack) == ("Team conversations",)
    assert one.history_build() != two.history_build()


# --- what a turn is


async def test_a_users_turn_is_a_conversation_of_one_at_the_agents_node(
    engine: WatchedEngine, memory: AgentMemory
) -> None:
    vienna = datetime(2026, 9, 15, 11, 1, tzinfo=timezone(timedelta(hours=2)))

    context = await memory.pre_turn("t-1", 4, "  How do refunds work?\u3000\n", at=vienna)

    [item] = engine.watch.requests("store_with")
    assert item == Conversation(
        turns=(Turn(role=Role.USER, text="How do refunds work?", at=AT),),
        meta=MemoryMeta(
            namespace=NODE,
            thread_id="t-1",
            turns=TurnRange(first=4, last=4),
            agent_id="support-01",
            source=SourceRef(kind=SourceKind.CONVERSATION, id="t-1"),
            observed_at=AT,
        ),
    )
    assert context.logged == StoreReceipt(id=item.fingerprint(), replayed=False)
    assert context.log_error is None


async def test_a_reply_names_its_tool_calls(engine: WatchedEngine, memory: AgentMemory) -> None:
    calls = [ToolCallRef(name="lookup", id="c1"), ToolCallRef(name="refund")]

    report = await memory.post_turn("t-1", 5, " Done. ", tool_calls=calls, at=AT)

    hit = await stored(engine, report.receipt.id)
    assert hit.text == "assistant: Done. [tools: lookup (c1), refund]"
    assert hit.meta.turns == TurnRange(first=5, last=5)


async def test_both_turns_are_accepted_and_not_waited_for() -> None:
    waits: list[WaitFor] = []

    class Waiting(ReferenceEngine):
        async def store_with(self, item: Any, wait: WaitFor = WaitFor.VISIBLE) -> StoreReceipt:
            waits.append(wait)
            return await super().store_with(item, wait)

    memory = AgentMemory(Waiting(), LAYOUT, "a")
    await memory.pre_turn("t", 0, "hello")
    await memory.post_turn("t", 1, "hi")

    assert waits == [WaitFor.ACCEPTED, WaitFor.ACCEPTED]


async def test_r49_a_retry_with_the_messages_own_time_is_a_replay_and_with_the_calls_is_not(
    engine: WatchedEngine, memory: AgentMemory
) -> None:
    first = await memory.post_turn("t", 1, "hi", at=AT)
    retried = await memory.post_turn("t", 1, "hi", at=AT)
    restamped = await memory.post_turn("t", 1, "hi", at=AT + timedelta(seconds=1))

    assert retried.receipt == StoreReceipt(id=first.receipt.id, replayed=True)
    assert not restamped.receipt.replayed
    assert await count(engine) == 2


async def test_r49_the_same_turn_sent_twice_at_once_is_stored_once(
    engine: WatchedEngine, memory: AgentMemory
) -> None:
    contexts = await asyncio.gather(*(memory.pre_turn("t", 0, "hello", at=AT) for _ in range(5)))

    assert len({context.logged.id for context in contexts if context.logged}) == 1
    assert await count(engine) == 1


async def test_r49_one_fact_said_in_two_turns_is_one_belief(
    engine: WatchedEngine, memory: AgentMemory
) -> None:
    await memory.pre_turn("t", 0, "I live in Graz.", at=AT)
    report = await memory.run_background(memory.history_build())
    again = await memory.run_background(memory.history_build())

    assert report.consolidation is not None
    assert again.consolidation is not None
    assert (report.consolidation.built, again.consolidation.built) == (1, 0)


NAIVE = datetime(2026, 9, 15)  # noqa: DTZ001  # what is to be refused


@pytest.mark.parametrize(
    ("call", "given", "named"),
    [
        ("pre_turn", {"turn_index": 0, "user_text": " \n"}, "text"),
        ("pre_turn", {"turn_index": 0, "user_text": None}, "text"),
        ("pre_turn", {"turn_index": 0, "user_text": "half a pair: \ud800"}, "surrogate"),
        ("pre_turn", {"turn_index": 0, "user_text": "hello", "thread_id": ""}, "thread_id"),
        ("pre_turn", {"turn_index": -1, "user_text": "hello"}, "turn_index"),
        ("pre_turn", {"turn_index": "0", "user_text": "hello"}, "turn_index"),
        ("pre_turn", {"turn_index": 0, "user_text": "hello", "in_prompt_from": -1}, "in_prompt_from"),
        ("pre_turn", {"turn_index": 0, "user_text": "hello", "at": NAIVE}, "pass an aware one"),
        ("pre_turn", {"turn_index": 0, "user_text": "hello", "at": "2026-99-99T00:00:00Z"}, "turns.0.at"),
        ("pre_turn", {"turn_index": 0, "user_text": "hello", "at": "2026-12-01"}, "`at` must be .* datetime"),
        ("pre_turn", {"turn_index": "1", "user_text": "hello"}, "`turn_index` must be of type int, not str"),
        ("start_session", {"thread_id": "t", "focus": 3}, "`focus`"),
        ("recall_for_compaction", {"dropped": [], "focus": 3}, "`focus`"),
        ("recall_for_compaction", {"dropped": [None]}, "`dropped`"),
        ("post_turn", {"turn_index": 1, "assistant_text": ""}, "text"),
        ("post_turn", {"turn_index": 1, "assistant_text": "hi", "thread_id": " "}, "thread_id"),
        ("post_turn", {"turn_index": 1, "assistant_text": "hi", "at": NAIVE}, "pass an aware one"),
        ("post_turn", {"turn_index": 1, "assistant_text": "hi", "tool_calls": [{"id": "1"}]}, "name"),
        ("start_session", {"thread_id": " "}, "thread_id"),
        ("recall_for_compaction", {"thread_id": "", "dropped": []}, "thread_id"),
        ("recall_for_compaction", {"dropped": [{"role": "bard", "text": "x"}]}, "role"),
    ],
)
async def test_malformed_input_is_refused_and_never_reaches_the_engine(
    engine: WatchedEngine, memory: AgentMemory, call: str, given: dict[str, Any], named: str
) -> None:
    with pytest.raises(InvalidRequestError, match=named):
        await getattr(memory, call)(**{"thread_id": "t", **given})

    assert engine.watch.calls == []


# --- pre_turn


async def test_the_turn_is_stored_while_the_pack_is_read(engine: WatchedEngine, memory: AgentMemory) -> None:
    everyone_in = asyncio.Barrier(5)
    inner = engine.inner

    async def fetch(request: FetchRequest) -> FetchPage:
        await everyone_in.wait()
        return await inner.fetch(request)

    async def store(item: Any) -> StoreReceipt:
        await everyone_in.wait()
        return await inner.store(item)

    engine.watch.answers.update(fetch=fetch, store_with=store)

    async with asyncio.timeout(10):
        context = await memory.pre_turn("t", 0, "refunds?")

    assert context.logged is not None
    assert context.pack.skipped == [SkippedSection(heading=name, reason="empty") for name in HEADINGS]


async def test_a_pack_has_the_standard_sections_in_order(memory: AgentMemory, colleague: AgentMemory) -> None:
    await fill(memory, colleague)

    context = await memory.pre_turn("new", 0, "How do refunds work?", at=AT)

    assert context.pack.markdown == (
        "# Memory\n"
        "\n## Learnings\n\n- refunds need a receipt\n"
        "\n## Brain\n\n- refunds take five days\n"
        "\n## This agent's history\n\n- [2026-09-15 09:01] user: refunds were asked for\n"
        "\n## Team conversations\n\n- [2026-09-15 09:01] user: refunds are in the code\n"
    )


async def test_a_zero_limit_leaves_its_section_out_and_its_scope_unread(
    engine: WatchedEngine, memory: AgentMemory, colleague: AgentMemory
) -> None:
    await fill(memory, colleague)
    engine.watch.calls.clear()
    policy = RecallPolicy(learnings_limit=0, history_limit=0, team_limit=0)

    pack = await AgentMemory(engine, LAYOUT, "support-01", policy).recall("refunds")

    assert headings(pack) == ("Brain",)
    assert pack.skipped == []
    assert len(engine.watch.requests("fetch")) == 1


async def test_the_teams_section_shows_no_turn_of_ones_own(
    engine: WatchedEngine, memory: AgentMemory, colleague: AgentMemory
) -> None:
    for turn in range(8):
        await memory.pre_turn("mine", turn, f"refunds, question {turn}", at=AT)
    await colleague.pre_turn("theirs", 0, "refunds, said a colleague", at=AT)

    pack = await AgentMemory(engine, LAYOUT, "support-01", RecallPolicy(history_limit=2)).recall("refunds")

    history, team = pack.sections
    assert (history.heading, len(history.refs)) == ("This agent's history", 2)
    assert team.heading == "Team conversations"
    assert [(await stored(engine, id_)).meta.agent_id for id_ in team.refs] == ["coder-42"]


async def test_a_pack_keeps_to_the_policys_limits_and_budget(engine: WatchedEngine) -> None:
    policy = RecallPolicy(budget_tokens=45, history_limit=2)
    memory = AgentMemory(engine, LAYOUT, "a", policy)
    for turn in range(5):
        await memory.pre_turn("t", turn, f"refunds {turn} " + "x" * 60, at=AT)

    pack = await memory.recall("refunds")

    assert pack.tokens <= 45
    assert [len(section.refs) for section in pack.sections] == [1]


@pytest.mark.parametrize(
    ("in_prompt_from", "shown"),
    [(0, set[int]()), (2, {0, 1}), (4, {0, 1, 2, 3}), (9, {0, 1, 2, 3})],
)
async def test_this_turn_and_the_thread_from_the_first_in_the_prompt_are_left_out(
    engine: WatchedEngine, memory: AgentMemory, in_prompt_from: int, shown: set[int]
) -> None:
    for turn in range(4):
        await memory.pre_turn("t", turn, f"refunds {turn}", at=AT + timedelta(minutes=turn))
    await memory.pre_turn("t", 4, "refunds?", at=AT)

    context = await memory.pre_turn("t", 4, "refunds?", at=AT, in_prompt_from=in_prompt_from)

    hits = [await stored(engine, id_) for id_ in context.pack.refs]
    assert {hit.meta.turns.first for hit in hits if hit.meta.turns} == shown


async def test_r49_a_turn_retried_with_another_time_does_not_meet_itself(
    engine: WatchedEngine, memory: AgentMemory
) -> None:
    await memory.pre_turn("t", 7, "refunds?", at=AT, in_prompt_from=7)

    retried = await memory.pre_turn("t", 7, "refunds?", at=AT + timedelta(seconds=5), in_prompt_from=8)

    assert retried.pack.refs == []


async def test_the_read_asks_for_the_standard_scopes_and_over_asks(
    engine: WatchedEngine, memory: AgentMemory
) -> None:
    await memory.pre_turn("t", 0, "refunds?")

    fetches = engine.watch.requests("fetch")
    assert [request.filter for request in fetches] == [
        LAYOUT.learnings_filter(),
        LAYOUT.brain_filter(),
        LAYOUT.conversations_filter("support-01"),
        LAYOUT.conversations_filter(),
    ]
    # The limit, this turn's id, the limit again for the thread, and all earlier limits.
    assert [request.limit for request in fetches] == [
        8 + 1 + 8,
        6 + 1 + 6 + 8,
        6 + 1 + 6 + 14,
        3 + 1 + 3 + 20,
    ]
    assert {request.beliefs for request in fetches} == {17}


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (UnavailableError("no answer in 5 s"), "unavailable: no answer in 5 s"),
        (EngineError("disk full"), "engine error: disk full"),
        (InvalidRequestError("an engine's whim"), "invalid request: an engine's whim"),
        (ValueError("a bug with the user's words"), "engine error: an unexpected ValueError"),
        (TimeoutError(), "engine error: an unexpected TimeoutError"),
        (asyncio.CancelledError(), "engine error: an unexpected CancelledError"),
    ],
)
async def test_no_failure_of_the_engine_fails_a_users_turn(
    engine: WatchedEngine, memory: AgentMemory, failure: BaseException, reason: str
) -> None:
    for method in ("store_with", "fetch", "list", "recall", "beliefs"):
        engine.watch.failures[method] = failure

    context = await memory.pre_turn("t", 0, "refunds?")

    assert (context.logged, context.log_error) == (None, reason)
    assert (context.pack.markdown, context.pack.tokens) == ("", 0)
    assert context.pack.skipped == [SkippedSection(heading=name, reason=reason) for name in HEADINGS]


async def test_a_turn_that_is_not_stored_still_has_its_pack(
    engine: WatchedEngine, memory: AgentMemory, colleague: AgentMemory
) -> None:
    await fill(memory, colleague)
    engine.watch.failures["store_with"] = UnavailableError("down")

    context = await memory.pre_turn("t", 0, "refunds?")

    assert context.log_error == "unavailable: down"
    assert headings(context.pack) == HEADINGS


async def test_a_pack_that_cannot_be_read_still_has_its_turn_stored(
    engine: WatchedEngine, memory: AgentMemory
) -> None:
    engine.watch.failures["fetch"] = UnavailableError("down")

    context = await memory.pre_turn("t", 0, "refunds?", at=AT)

    assert context.logged is not None
    assert await count(engine) == 1


async def test_an_engine_with_bugs_everywhere_fails_no_turn() -> None:
    class Broken(ReferenceEngine):
        @property
        def descriptor(self) -> EngineDescriptor:
            raise RuntimeError("no descriptor")

        def store_with(self, item: object, wait: WaitFor = WaitFor.VISIBLE) -> Any:
            raise RuntimeError("not even a coroutine")

    context = await AgentMemory(Broken(), LAYOUT, "a").pre_turn("t", 0, "hello")

    assert context.log_error == "engine error: an unexpected RuntimeError"
    assert [skipped.reason for skipped in context.pack.skipped] == [context.log_error] * 4


async def test_a_store_that_answers_nonsense_is_one_more_failure_to_log(
    engine: WatchedEngine, memory: AgentMemory
) -> None:
    engine.watch.answers["store_with"] = lambda _: None

    context = await memory.pre_turn("t", 0, "hello")

    assert (context.logged, context.log_error) == (None, "engine error: an unexpected ValidationError")


async def test_a_cancelled_turn_is_cancelled_and_leaves_nothing_running(
    engine: WatchedEngine, memory: AgentMemory
) -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def hang(_: Any) -> Any:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    engine.watch.answers["fetch"] = hang
    call = asyncio.create_task(memory.pre_turn("t", 0, "hello"))
    await started.wait()
    call.cancel()

    with pytest.raises(asyncio.CancelledError):
        await call
    assert ended.is_set()


async def test_a_hosts_own_timeout_ends_a_turn_that_hangs(engine: WatchedEngine, memory: AgentMemory) -> None:
    async def hang(_: Any) -> Any:
        await asyncio.Event().wait()

    engine.watch.answers["fetch"] = hang

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await memory.pre_turn("t", 0, "hello")


# --- post_turn and builds


@pytest.mark.parametrize("every", [1, 2, 10])
async def test_a_build_is_handed_back_every_so_many_turns(engine: WatchedEngine, every: int) -> None:
    memory = AgentMemory(engine, LAYOUT, "support-01", RecallPolicy(build_beliefs_every=every))

    due = [turn for turn in range(25) if (await memory.post_turn("t", turn, f"reply {turn}")).jobs]

    assert due == [turn for turn in range(25) if (turn + 1) % every == 0]


@pytest.mark.parametrize("never", [None, 0])
async def test_no_build_is_handed_back_when_builds_are_off(engine: WatchedEngine, never: int | None) -> None:
    memory = AgentMemory(engine, LAYOUT, "support-01", RecallPolicy(build_beliefs_every=never))

    assert not any([(await memory.post_turn("t", turn, "reply")).jobs for turn in range(12)])


async def test_the_build_is_of_exactly_this_agents_conversations(memory: AgentMemory) -> None:
    report = await memory.post_turn("t", 9, "the tenth turn")

    assert report.jobs == [memory.history_build()]
    assert memory.history_build() == BuildBeliefs(
        ConsolidateRequest(reach=Reach.exact(NODE), kinds=(ItemKind.CONVERSATION,))
    )


async def test_r25_a_build_after_more_turns_covers_them(memory: AgentMemory) -> None:
    for turn in range(2):
        await memory.pre_turn("t", turn, f"fact number {turn}.", at=AT)
    first = await memory.run_background(memory.history_build())
    for turn in range(2, 22):
        await memory.pre_turn("t", turn, f"fact number {turn}.", at=AT)
    second = await memory.run_background(memory.history_build())

    assert first.consolidation is not None
    assert second.consolidation is not None
    assert (first.consolidation.built, second.consolidation.built) == (2, 20)


@pytest.mark.parametrize("failure", [UnavailableError("down"), RuntimeError("bug")])
async def test_a_reply_that_is_not_stored_is_an_error_for_the_host_to_log(
    engine: WatchedEngine, memory: AgentMemory, failure: Exception
) -> None:
    engine.watch.failures["store_with"] = failure

    with pytest.raises(type(failure)):
        await memory.post_turn("t", 1, "hi")


async def test_r44_what_post_turn_answered_is_stored_before_it_answers(
    engine: WatchedEngine, memory: AgentMemory
) -> None:
    report = await memory.post_turn("t", 9, "hi", at=AT)

    # Nothing is left to a timer or a task: the reply is in the engine and the job in the host's hand.
    assert (await stored(engine, report.receipt.id)).text == "assistant: hi"
    assert len(report.jobs) == 1
    assert len(asyncio.all_tasks()) == 1


async def test_jobs_of_an_agent_run_where_the_host_likes(engine: WatchedEngine, memory: AgentMemory) -> None:
    await memory.pre_turn("t", 0, "I live in Graz.", at=AT)

    here = await memory.run_background(memory.history_build())
    there = await memory.background().run(memory.history_build())

    assert here.outcome.outcome is there.outcome.outcome is OutcomeKind.DONE
    assert "I live in Graz" in (await memory.recall("Graz")).markdown.split("## This agent's history")[0]


async def test_the_models_tools_write_at_the_agents_node(engine: WatchedEngine, memory: AgentMemory) -> None:
    result = await memory.tools().call("memory_store", {"learning": {"text": "refunds need a receipt"}})

    assert (await stored(engine, result["id"])).meta.namespace == NODE
    assert headings(await memory.recall("refunds")) == ("Learnings",)


# --- start_session


async def test_a_new_session_reads_the_standard_sections_newest_first(
    engine: WatchedEngine, memory: AgentMemory, colleague: AgentMemory
) -> None:
    await fill(memory, colleague)
    await memory.pre_turn("old", 1, "something newer", at=AT + timedelta(hours=1))
    engine.watch.calls.clear()

    pack = await memory.start_session()

    assert headings(pack) == HEADINGS
    assert "something newer" in pack.markdown.split("refunds were asked for")[0]
    assert {call.method for call in engine.watch.calls} == {"list", "beliefs"}


@pytest.mark.parametrize("focus", ["refunds", None, " "])
async def test_a_session_is_ranked_for_its_focus_if_it_has_one(
    engine: WatchedEngine, memory: AgentMemory, focus: str | None
) -> None:
    await memory.start_session(focus=focus)

    queries = {request.query for request in engine.watch.requests("fetch")}
    assert queries == ({"refunds"} if focus == "refunds" else set())


async def test_a_resumed_thread_comes_first_newest_turn_first(
    memory: AgentMemory, colleague: AgentMemory
) -> None:
    await fill(memory, colleague)
    for turn in range(8):
        await memory.pre_turn("old", turn + 1, f"turn {turn + 1}", at=AT + timedelta(minutes=turn))
    await colleague.pre_turn("old", 99, "another agent in a thread of that name", at=AT + timedelta(days=1))

    pack = await memory.start_session("old", "refunds")

    assert headings(pack)[0] == "Earlier in this thread"
    earlier = pack.markdown.split("\n## ")[1].splitlines()[2:]
    assert [line.split("user: ")[1] for line in earlier if line] == [
        f"turn {turn}" for turn in range(8, 2, -1)
    ]


async def test_a_resumed_thread_shows_at_least_its_last_turn(engine: WatchedEngine) -> None:
    memory = AgentMemory(engine, LAYOUT, "a", RecallPolicy(history_limit=0, team_limit=0))
    for turn in range(3):
        await memory.pre_turn("t", turn, f"turn {turn}", at=AT + timedelta(minutes=turn))

    pack = await memory.start_session("t")

    assert pack.markdown == "# Memory\n\n## Earlier in this thread\n\n- [2026-09-15 09:03] user: turn 2\n"


async def test_a_session_only_reads(engine: WatchedEngine, memory: AgentMemory) -> None:
    await memory.start_session("t", "refunds")
    await memory.recall("refunds")
    await memory.recall_for_compaction("t", [Turn(role=Role.USER, text="hello")])

    assert {call.method for call in engine.watch.calls} <= {"fetch", "list", "beliefs", "recall"}


async def test_reads_never_fail_because_of_the_engine(engine: WatchedEngine, memory: AgentMemory) -> None:
    for method in ("fetch", "list", "recall", "beliefs"):
        engine.watch.failures[method] = UnavailableError("down")

    packs = [
        await memory.start_session("t"),
        await memory.recall("refunds"),
        await memory.recall_for_compaction("t", []),
    ]

    assert [len(pack.skipped) for pack in packs] == [5, 4, 5]
    assert {skipped.reason for pack in packs for skipped in pack.skipped} == {"unavailable: down"}


async def test_a_blank_recall_is_newest_first(engine: WatchedEngine, memory: AgentMemory) -> None:
    await memory.recall(" \n")

    assert {call.method for call in engine.watch.calls} == {"list", "beliefs"}


# --- recall_for_compaction


def user_turns(number: int, text: str = "turn {}") -> list[Turn]:
    return [Turn(role=Role.USER, text=text.format(index)) for index in range(number)]


async def test_a_compaction_is_a_summary_of_the_thread_then_the_standard_sections(
    engine: WatchedEngine, memory: AgentMemory, colleague: AgentMemory
) -> None:
    await fill(memory, colleague)

    pack = await memory.recall_for_compaction("old", user_turns(1), focus="refunds")

    assert headings(pack)[0] == "Earlier in this conversation"
    assert headings(pack)[1:] == HEADINGS
    [request] = engine.watch.requests("recall")
    own = LAYOUT.conversations_filter("support-01")
    assert request.filter == MetaFilter(reach=own.reach, kinds=own.kinds, thread_id="old")
    for word in ("discussed", "decided", "left open"):
        assert word in request.question


@pytest.mark.parametrize(
    ("history_limit", "dropped", "limit"), [(6, 0, 6), (6, 10, 10), (6, 100, 24), (0, 0, 1), (30, 2, 24)]
)
async def test_a_summary_reads_as_many_turns_as_were_dropped_up_to_24(
    engine: WatchedEngine, history_limit: int, dropped: int, limit: int
) -> None:
    memory = AgentMemory(engine, LAYOUT, "a", RecallPolicy(history_limit=history_limit))

    await memory.recall_for_compaction("t", user_turns(dropped))

    assert [request.limit for request in engine.watch.requests("recall")] == [limit]


async def test_a_summary_that_fails_falls_back_to_what_is_found(
    engine: WatchedEngine, memory: AgentMemory
) -> None:
    await memory.pre_turn("t", 0, "it was decided to leave the conversation open", at=AT)
    engine.watch.failures["recall"] = UnavailableError("no model")

    pack = await memory.recall_for_compaction("t", user_turns(1))

    assert pack.markdown.startswith(
        "# Memory\n\n## Earlier in this conversation\n\n- [2026-09-15 09:01] user: it was decided"
    )


async def test_sections_are_ranked_for_the_start_of_every_dropped_turn_oldest_first(
    engine: WatchedEngine, memory: AgentMemory
) -> None:
    dropped = [Turn(role=Role.USER, text=f"  {letter * 500}") for letter in "abc"]

    await memory.recall_for_compaction("t", dropped)

    gist = "\n".join(letter * 200 for letter in "abc")
    assert {request.query for request in engine.watch.requests("fetch") if request.beliefs} >= {gist}


@pytest.mark.parametrize("focus", [None, " "])
async def test_without_focus_or_dropped_turns_sections_are_newest_first(
    engine: WatchedEngine, memory: AgentMemory, focus: str | None
) -> None:
    engine.watch.answers["recall"] = lambda request: ReferenceEngine().recall(request)

    await memory.recall_for_compaction("t", [], focus=focus)

    standard = [request for request in engine.watch.requests("fetch") if request.filter.thread_id is None]
    assert standard == []


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=900), max_size=60))
async def test_every_dropped_turn_has_an_equal_share_of_at_least_40_characters(texts: list[str]) -> None:
    engine = WatchedEngine(ReferenceEngine())
    policy = RecallPolicy(learnings_limit=0, history_limit=0, team_limit=0)
    memory = AgentMemory(engine, LAYOUT, "a", policy)

    await memory.recall_for_compaction("t", [Turn(role=Role.TOOL, text=text) for text in texts])

    said = [trimmed(text) for text in texts if not is_blank(text)]
    share = max(600 // max(len(said), 1), 40)
    queries = [request.query for request in engine.watch.requests("fetch") if not request.filter.thread_id]
    assert queries == (["\n".join(text[:share] for text in said)] if said else [])


async def test_r35_a_thread_in_composed_and_decomposed_unicode_is_one_thread(memory: AgentMemory) -> None:
    first = await memory.pre_turn("caf\u00e9", 0, "refunds?", at=AT)
    again = await memory.pre_turn("cafe\u0301", 0, "refunds?", at=AT)
    resumed = await memory.start_session("cafe\u0301")
    listed = await memory.tools().call("memory_list", {"filter": {"thread_id": "cafe\u0301"}})

    assert first.logged is not None
    assert again.logged == first.logged.model_copy(update={"replayed": True})
    assert resumed.sections[0].heading == "Earlier in this thread"
    assert again.pack.refs == []
    assert [item["id"] for item in listed["items"]] == [first.logged.id]


async def test_of_a_dropped_turn_its_text_will_do(memory: AgentMemory) -> None:
    await memory.pre_turn("t", 0, "refunds take 30 days", at=AT)

    of_texts = await memory.recall_for_compaction("t", ["refunds"])
    of_turns = await memory.recall_for_compaction("t", [Turn(Role.USER, "refunds")])

    assert of_texts.sections
    assert of_texts == of_turns


async def test_r35_a_tool_finds_an_agents_turns_by_its_id_in_either_unicode_form(
    engine: WatchedEngine,
) -> None:
    memory = AgentMemory(engine, LAYOUT, "cafe\u0301")
    await memory.pre_turn("t", 0, "refunds?", at=AT)

    for spelling in ("caf\u00e9", "cafe\u0301"):
        listed = await memory.tools().call("memory_list", {"filter": {"agent_id": spelling}})
        assert len(listed["items"]) == 1


@pytest.mark.parametrize("given", [("sqlite", LAYOUT), (ReferenceEngine(), "team:acme")])
def test_an_agent_of_no_engine_or_no_layout_is_refused(given: tuple[Any, Any]) -> None:
    with pytest.raises(InvalidRequestError, match=r"`(engine|layout)` must be of type"):
        AgentMemory(*given, "a")


async def test_a_question_and_a_job_of_another_type_are_refused(memory: AgentMemory) -> None:
    nothing: Any = None
    with pytest.raises(InvalidRequestError, match="`query`"):
        await memory.recall(nothing)
    with pytest.raises(InvalidRequestError, match="`job` must be a background job"):
        await memory.run_background(nothing)
