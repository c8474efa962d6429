"""One agent's memory: what a host calls when a session starts, around each turn, and at compaction."""

import asyncio
from collections.abc import Sequence
from datetime import datetime

from pydantic import Field, TypeAdapter

from tinymemory.background import BackgroundJob, BackgroundRunner, BuildBeliefs, JobReport
from tinymemory.brain import Brain, Progress
from tinymemory.engine import MemoryEngine, WaitFor
from tinymemory.errors import InvalidRequestError
from tinymemory.items import Conversation, Role, StoreReceipt, Turn
from tinymemory.layout import MemoryLayout, composed
from tinymemory.meta import ItemKind, SourceKind, ToolCallRef
from tinymemory.model import Value, ensure_is, parse
from tinymemory.namespace import Reach
from tinymemory.query import ConsolidateRequest
from tinymemory.recall import (
    Answer,
    ContextPack,
    Fetch,
    HolisticRecall,
    Latest,
    ScopeSection,
    SkippedSection,
    ThreadWindow,
    holistic_recall,
)
from tinymemory.recall.reading import reason_of
from tinymemory.text import is_blank, trimmed
from tinymemory.tools import MemoryTools

MAX_COMPACTION_LIMIT = 24
GIST_CHARACTERS = 600
MIN_GIST_SHARE = 40
COMPACTION_QUESTION = "What was discussed, decided and left open in this conversation?"

_TURNS: TypeAdapter[tuple[Turn | str, ...]] = TypeAdapter(tuple[Turn | str, ...])


class RecallPolicy(Value):
    """The shape of an agent's packs, and how often its beliefs are built."""

    budget_tokens: int = 1200
    learnings_limit: int = 8
    """Learnings and beliefs together.  Of every limit, 0 leaves its section out."""
    brain_limit: int = 6
    history_limit: int = 6
    """This agent's own turns."""
    team_limit: int = 3
    """Other agents' turns."""
    build_beliefs_every: int | None = 10
    """Turns between belief builds; None and 0 are never."""

    def ensure_valid(self) -> None:
        """Raise `InvalidRequestError` for a budget below 1 or any other number below 0."""
        if self.budget_tokens < 1:
            raise InvalidRequestError(f"`budget_tokens` of a policy is {self.budget_tokens}, below 1")
        for name in type(self).model_fields:
            number = getattr(self, name)
            if number is not None and number < 0:
                raise InvalidRequestError(f"`{name}` of a policy is {number}, below 0")


class TurnContext(Value):
    """What to put before the model for this turn, and whether the turn was logged."""

    pack: ContextPack
    logged: StoreReceipt | None = None
    log_error: str | None = None
    """Why the turn was not stored; log it, and go on with the turn."""


class PostTurnReport(Value):
    """What became of a reply."""

    receipt: StoreReceipt
    jobs: list[BackgroundJob] = Field(default_factory=list[BackgroundJob])
    """Slow work this turn made due; to be run off the turn."""


class AgentMemory:
    """The memory of one agent below a layout's root.

    Reads never fail because of the engine: what could not be read is in the pack's `skipped`.
    Malformed input, such as a blank text or a naive datetime, is `InvalidRequestError` everywhere.
    """

    def __init__(
        self,
        engine: MemoryEngine,
        layout: MemoryLayout,
        agent_id: str,
        policy: RecallPolicy | None = None,
    ) -> None:
        ensure_is(engine, MemoryEngine, "engine")
        ensure_is(layout, MemoryLayout, "layout")
        _ensure_text(agent_id, "agent_id")
        self.engine = engine
        self.layout = layout
        self.agent_id = composed(agent_id)
        self.policy = RecallPolicy() if policy is None else policy
        ensure_is(self.policy, RecallPolicy, "policy")
        self.policy.ensure_valid()
        self.node = layout.conversations(agent_id)

    async def start_session(self, thread_id: str | None = None, focus: str | None = None) -> ContextPack:
        """The pack for the system prompt of a new or resumed session.

        A resumed thread's newest turns come first, then the standard sections, ranked for `focus`
        or newest first.  Reads only.
        """
        _ensure_text_or_none(focus, "focus")
        resumed: list[ScopeSection] = []
        if thread_id is not None:
            thread_id = _thread_id(thread_id)
            limit = max(self.policy.history_limit, 1)
            resumed = [self._thread("Earlier in this thread", thread_id, limit, Latest())]
        return await self._recall([*resumed, *self._standard_sections()], focus)

    async def pre_turn(
        self,
        thread_id: str,
        turn_index: int,
        user_text: str,
        *,
        in_prompt_from: int = 0,
        at: datetime | None = None,
    ) -> TurnContext:
        """Store the user's turn and, at the same time, read what the model should know for it.

        Args:
            thread_id: The conversation; stable over restarts.
            turn_index: The turn's place in its thread, from 0; stable over retries.
            user_text: What the user said.
            in_prompt_from: The first turn still in the prompt; turns from there on are left out.
            at: The message's own time, aware; with it a retried call is a replay.

        Raises:
            InvalidRequestError: The input is malformed.  No failure of the engine is raised.
        """
        _ensure_index(in_prompt_from, "in_prompt_from")
        thread_id = _thread_id(thread_id)
        item = self._turn(thread_id, turn_index, Role.USER, user_text, at=at)
        request = HolisticRecall(
            self._standard_sections(),
            user_text,
            budget_tokens=self.policy.budget_tokens,
            exclude_ids=(item.fingerprint(),),
            # The turn at hand is in the prompt, whatever the host says of those before it.
            exclude_thread=ThreadWindow(thread_id, min(in_prompt_from, turn_index)),
        )
        # The read first: it takes longer, and the turn waits for both.
        pack, logged = await asyncio.gather(
            holistic_recall(self.engine, request), self._log(item), return_exceptions=True
        )
        if isinstance(pack, BaseException):
            pack = _nothing_read(request, pack)
        if isinstance(logged, BaseException):
            return TurnContext(pack=pack, log_error=reason_of(logged))
        return TurnContext(pack=pack, logged=logged)

    async def post_turn(
        self,
        thread_id: str,
        turn_index: int,
        assistant_text: str,
        *,
        tool_calls: Sequence[ToolCallRef] = (),
        at: datetime | None = None,
    ) -> PostTurnReport:
        """Store the reply; every `build_beliefs_every` turns its report holds a belief build.

        Raises:
            InvalidRequestError: The input is malformed.
            TinyMemoryError: The engine failed: there is no receipt.  Log it, and go on.
        """
        item = self._turn(thread_id, turn_index, Role.ASSISTANT, assistant_text, tool_calls=tool_calls, at=at)
        receipt = await self.engine.store_with(item, WaitFor.ACCEPTED)
        every = self.policy.build_beliefs_every
        is_due = bool(every) and (turn_index + 1) % every == 0
        return PostTurnReport(receipt=receipt, jobs=[self.history_build()] if is_due else [])

    async def recall_for_compaction(
        self, thread_id: str, dropped: Sequence[Turn | str], *, focus: str | None = None
    ) -> ContextPack:
        """What to carry over when turns leave the prompt: a summary, then the standard sections.

        The engine's model may write the summary, which takes seconds.  The sections are ranked for
        `focus`, else for the gist of the dropped turns, oldest first; of a turn its text will do.
        """
        thread_id = _thread_id(thread_id)
        _ensure_text_or_none(focus, "focus")
        turns = parse(_TURNS, dropped, what="`dropped`")
        limit = min(max(self.policy.history_limit, len(turns), 1), MAX_COMPACTION_LIMIT)
        answer = Answer(COMPACTION_QUESTION, fallback_to_fetch=True)
        summary = self._thread("Earlier in this conversation", thread_id, limit, answer)
        has_focus = focus is not None and not is_blank(focus)
        return await self._recall([summary, *self._standard_sections()], focus if has_focus else _gist(turns))

    async def recall(self, query: str) -> ContextPack:
        """The read of `pre_turn`, without logging; newest first when the query is blank."""
        ensure_is(query, str, "query")
        return await self._recall(self._standard_sections(), query)

    def history_build(self) -> BuildBeliefs:
        """The job that builds beliefs from this agent's conversations."""
        return BuildBeliefs(ConsolidateRequest(reach=Reach.exact(self.node), kinds=(ItemKind.CONVERSATION,)))

    def tools(self) -> MemoryTools:
        """Tools for the model: writes land at this agent's node, reads see it and what is above it."""
        return MemoryTools(self.engine).placed_at(self.node)

    def brain(self) -> Brain:
        """The documents this agent shares with all others under the root."""
        return Brain(self.engine, self.layout)

    def background(self) -> BackgroundRunner:
        """What runs the jobs that calls hand back."""
        return BackgroundRunner(self.engine, self.layout)

    async def run_background(self, job: BackgroundJob, *, progress: Progress | None = None) -> JobReport:
        """Run one job here and now."""
        return await self.background().run(job, progress=progress)

    async def _log(self, item: Conversation) -> StoreReceipt:
        # Checked here, where an engine that answers something else is one more failure to log.
        return StoreReceipt.model_validate(await self.engine.store_with(item, WaitFor.ACCEPTED))

    async def _recall(self, sections: Sequence[ScopeSection], query: str | None) -> ContextPack:
        request = HolisticRecall(sections, query, budget_tokens=self.policy.budget_tokens)
        return await holistic_recall(self.engine, request)

    def _standard_sections(self) -> list[ScopeSection]:
        layout, policy = self.layout, self.policy
        own = layout.conversations_filter(self.agent_id)
        sections = [
            ("Learnings", layout.learnings_filter(), policy.learnings_limit, None),
            ("Brain", layout.brain_filter(), policy.brain_limit, None),
            ("This agent's history", own, policy.history_limit, None),
            ("Team conversations", layout.conversations_filter(), policy.team_limit, own.reach),
        ]
        return [
            ScopeSection(heading, selected, limit, Fetch(), except_within=left_out)
            for heading, selected, limit, left_out in sections
            if limit > 0
        ]

    def _thread(self, heading: str, thread_id: str, limit: int, query: Answer | Latest) -> ScopeSection:
        own = self.layout.conversations_filter(self.agent_id)
        return ScopeSection(heading, own.model_copy(update={"thread_id": thread_id}), limit, query)

    def _turn(
        self,
        thread_id: str,
        turn_index: int,
        role: Role,
        text: str,
        *,
        tool_calls: Sequence[ToolCallRef] = (),
        at: datetime | None,
    ) -> Conversation:
        """One turn as it is stored: a conversation of one, at the agent's node."""
        thread_id = _thread_id(thread_id)
        _ensure_text(text, "text")
        _ensure_index(turn_index, "turn_index")
        if at is not None and not (isinstance(at, str) and at[10:]):  # a day is read as a naive midnight
            ensure_is(at, datetime, "at")
        said = {"role": role, "text": trimmed(text), "at": at, "tool_calls": tool_calls}
        meta = {
            "namespace": self.node,
            "thread_id": thread_id,
            "turns": {"first": turn_index, "last": turn_index},
            "agent_id": self.agent_id,
            "source": {"kind": SourceKind.CONVERSATION, "id": thread_id},
            "observed_at": at,
        }
        item = parse(Conversation, {"turns": [said], "meta": meta}, what="turn")
        item.validate_storable()
        return item


def _nothing_read(request: HolisticRecall, failure: BaseException) -> ContextPack:
    reason = reason_of(failure)
    skipped = [SkippedSection(heading=section.heading, reason=reason) for section in request.sections]
    return ContextPack(markdown="", tokens=0, skipped=skipped, engine="unknown")


def _gist(turns: Sequence[Turn | str]) -> str:
    """The start of every turn, oldest first, in equal shares."""
    texts = (turn if isinstance(turn, str) else turn.text for turn in turns)
    said = [trimmed(text) for text in texts if not is_blank(text)]
    share = max(GIST_CHARACTERS // max(len(said), 1), MIN_GIST_SHARE)
    return "\n".join(text[:share] for text in said)


def _thread_id(thread_id: str) -> str:
    """The id as turns are stored and found by it: like an agent's, in Unicode's composed form."""
    _ensure_text(thread_id, "thread_id")
    return composed(thread_id)


def _ensure_index(index: int, name: str) -> None:
    ensure_is(index, int, name)
    if index < 0:
        raise InvalidRequestError(f"`{name}` is a turn's number, 0 or more")


def _ensure_text(text: str, name: str) -> None:
    ensure_is(text, str, name)
    if is_blank(text):
        raise InvalidRequestError(f"`{name}` is blank")


def _ensure_text_or_none(text: str | None, name: str) -> None:
    if text is not None:
        ensure_is(text, str, name)
