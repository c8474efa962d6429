"""Reading the sections of a plan: all at once, each failing alone."""

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from tinymemory.engine import MemoryEngine
from tinymemory.errors import EngineError, TinyMemoryError
from tinymemory.namespace import Namespace, Reach
from tinymemory.query import BeliefsRequest, FetchRequest, Hit, RecallAnswer, RecallRequest
from tinymemory.recall.plan import RecallPlan, SectionPlan
from tinymemory.recall.request import Answer
from tinymemory.text import is_blank

_WHOLE_TREE = Reach.subtree(Namespace.ROOT)


@dataclass(frozen=True, slots=True)
class Found:
    """What one section's read brought: hits in order and beliefs beside them, an answer, or a failure."""

    hits: list[Hit] = field(default_factory=list[Hit])
    beliefs: list[Hit] = field(default_factory=list[Hit])
    answer: RecallAnswer | None = None
    failure: str | None = None


async def read_sections(engine: MemoryEngine, plan: RecallPlan) -> list[Found]:
    """Read every section concurrently, in the order of the plan; no engine failure escapes."""
    reading = [_read(engine, plan, planned) for planned in plan.sections]
    # With `return_exceptions` a read that dies in any way is a result, and only the caller's own
    # cancellation cancels the call.
    outcomes = await asyncio.gather(*reading, return_exceptions=True)
    return [
        outcome if isinstance(outcome, Found) else Found(failure=reason_of(outcome)) for outcome in outcomes
    ]


def reason_of(error: BaseException) -> str:
    """An error in words that are safe to show: of one the library does not know, its class alone."""
    if isinstance(error, TinyMemoryError):
        return str(error)
    return str(EngineError(f"an unexpected {type(error).__name__}"))


async def _read(engine: MemoryEngine, plan: RecallPlan, planned: SectionPlan) -> Found:
    query = planned.section.query
    if isinstance(query, Answer):
        return await _answered(engine, plan, planned, query)
    if planned.query is not None:
        return await _fetched(engine, plan, planned, planned.query)
    if not planned.is_learnings:
        return await _newest(engine, plan, planned)
    found, beliefs = await asyncio.gather(
        _newest(engine, plan, planned), _listed_beliefs(engine, planned), return_exceptions=True
    )
    if isinstance(found, BaseException):
        raise found
    return found if isinstance(beliefs, BaseException) else replace(found, beliefs=_hinted(plan, beliefs))


async def _answered(engine: MemoryEngine, plan: RecallPlan, planned: SectionPlan, asked: Answer) -> Found:
    request = RecallRequest(
        question=asked.question,
        filter=planned.section.filter,
        limit=planned.section.limit,
        instructions=asked.instructions,
        refers_to=plan.request.refers_to,
    )
    try:
        answer = await engine.recall(request)
    except Exception:  # whatever an engine raises, the fallback stands in for it
        if not asked.fallback_to_fetch:
            raise
        answer = None
    if answer is not None and answer.citations and not is_blank(answer.answer):
        return Found(answer=answer)
    if not asked.fallback_to_fetch:
        return Found()
    if planned.query is None:
        return await _newest(engine, plan, planned)
    return await _fetched(engine, plan, planned, planned.query)


async def _fetched(engine: MemoryEngine, plan: RecallPlan, planned: SectionPlan, query: str) -> Found:
    assert plan.mode is not None
    page = await engine.fetch(
        FetchRequest(
            query=query,
            mode=plan.mode,
            filter=planned.section.filter,
            limit=planned.ask,
            beliefs=plan.beliefs,
            refers_to=plan.request.refers_to,
        )
    )
    return Found(hits=_hinted(plan, page.hits), beliefs=_hinted(plan, page.beliefs))


async def _newest(engine: MemoryEngine, plan: RecallPlan, planned: SectionPlan) -> Found:
    section, found = planned.section, list[Hit]()
    # With days to bring forward, the newest of those may be the last of all.
    most = planned.ask if plan.request.refers_to is None else None
    async with aclosing(engine.newest(section.filter, except_within=section.except_within)) as hits:
        async for hit in hits:
            if plan.admits(hit, section):
                found.append(hit)
                if len(found) == most:
                    break
    return Found(hits=_hinted(plan, found)[: planned.ask])


async def _listed_beliefs(engine: MemoryEngine, planned: SectionPlan) -> list[Hit]:
    reach = planned.section.filter.reach or _WHOLE_TREE
    return [*await engine.beliefs(BeliefsRequest(reach=reach, limit=planned.ask))]


def _hinted(plan: RecallPlan, hits: list[Hit]) -> list[Hit]:
    hint = plan.request.refers_to
    return hits if hint is None else hint.rank(hits)
