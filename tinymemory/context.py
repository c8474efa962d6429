"""context.md: a budgeted brief of what memory holds, for the top of a long-lived system prompt.

One preset of holistic recall: a few questions answered by the engine, then the newest learnings, and
a front matter that says how the document came about.
"""

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import chain

from pydantic import Field

from tinymemory.engine import MemoryEngine
from tinymemory.errors import InvalidRequestError
from tinymemory.meta import ItemKind, MetaFilter
from tinymemory.model import Instant, Value, in_utc, instant_text
from tinymemory.namespace import Reach
from tinymemory.recall.budget import markdown, trim
from tinymemory.recall.pack import tokens_of
from tinymemory.recall.plan import plan
from tinymemory.recall.reading import Found, read_sections
from tinymemory.recall.request import Answer, HolisticRecall, Latest, ScopeSection
from tinymemory.recall.selection import Chosen, choose

TITLE = "Memory"
LEARNINGS = "Learnings"
MAX_CITATIONS = 8
"""Citations of one brief."""

log = logging.getLogger(__name__)


class Brief(Value):
    """One question of the document, answered under a heading of its own."""

    heading: str
    question: str
    filter: MetaFilter = MetaFilter()
    """What it is answered from; the document's reach goes over the filter's."""


DEFAULT_BRIEFS = (
    Brief(
        heading="About the user",
        question="Who is the user: name, role, background and circumstances?",
    ),
    Brief(
        heading="Active work",
        question="What is the user working on now: projects, goals, deadlines and open questions?",
    ),
    Brief(
        heading="Preferences and standing instructions",
        question="How does the user want things done: preferences, standing instructions and corrections?",
    ),
    Brief(
        heading="Recent important events",
        question="Which important things happened lately, and what was decided?",
    ),
)


class ContextSpec(Value):
    """What goes into a document."""

    budget_tokens: int = 1500
    """Of the whole document, front matter included; four characters a token."""
    briefs: tuple[Brief, ...] = DEFAULT_BRIEFS
    learnings_limit: int = 20
    """Learnings and beliefs together; 0 leaves them out."""
    reach: Reach | None = None
    """Confines the document to a part of the tree; None is every namespace."""

    def ensure_valid(self) -> None:
        """Raise `InvalidRequestError` for a budget below 1, a limit below 0, a blank heading or question."""
        if self.learnings_limit < 0:
            raise InvalidRequestError(f"`learnings_limit` is {self.learnings_limit}, below 0")
        _request(self).ensure_valid()


class ContextDoc(Value):
    """A compiled document."""

    markdown: str
    """Front matter and body; empty when memory had nothing to say."""
    tokens: int
    """A quarter of the characters, rounded up."""
    generated_at: Instant
    engine: str
    refs: list[str] = Field(default_factory=list[str])
    """The ids of all that is cited or listed, in the order of their first citation."""


async def compile_context(
    engine: MemoryEngine,
    spec: ContextSpec = ContextSpec(),  # noqa: B008  # frozen
    at: datetime | None = None,
) -> ContextDoc:
    """Ask each brief's question, list the learnings, and render what fits the budget.

    Learnings go first when it does not fit, from the end, then the last brief is shortened or
    dropped, and so on.  A brief that fails is left out and logged.

    Args:
        engine: Where to read.
        spec: What to read and how much of it.
        at: When the document is made; now, when left out.

    Raises:
        InvalidRequestError: The spec is malformed, or `at` has no time zone.
    """
    spec.ensure_valid()
    made_at = datetime.now(UTC).replace(microsecond=0) if at is None else in_utc(at)
    planned = plan(_request(spec), engine.descriptor)
    found = await read_sections(engine, planned)
    chosen = choose(planned, found)
    _log_failures(chosen, found)
    kept = [section for section in chosen if section.bullets or section.answer is not None]
    return _fitted(kept, spec.budget_tokens, made_at, engine.descriptor.id)


def _request(spec: ContextSpec) -> HolisticRecall:
    sections = [
        ScopeSection(
            brief.heading,
            _confined(brief.filter, spec.reach),
            MAX_CITATIONS,
            Answer(brief.question),
        )
        for brief in spec.briefs
    ]
    if spec.learnings_limit > 0:
        learnings = _confined(MetaFilter(kinds=(ItemKind.LEARNING,)), spec.reach)
        sections.append(ScopeSection(LEARNINGS, learnings, spec.learnings_limit, Latest()))
    return HolisticRecall(sections, budget_tokens=spec.budget_tokens, title=TITLE)


def _confined(filter: MetaFilter, reach: Reach | None) -> MetaFilter:  # noqa: A002  # the wire's word
    return filter if reach is None else filter.model_copy(update={"reach": reach})


def _log_failures(chosen: Sequence[Chosen], found: Sequence[Found]) -> None:
    for section, result in zip(chosen, found, strict=True):
        if result.failure is not None:
            log.warning(
                "context_section_failed", extra={"heading": section.heading, "reason": result.failure}
            )


def _fitted(kept: list[Chosen], budget_tokens: int, made_at: datetime, engine: str) -> ContextDoc:
    """The largest document of these sections within the budget; trims in place."""
    while True:
        doc = _document(kept, made_at, engine)
        if doc.tokens <= budget_tokens:
            return doc
        trim(kept, doc.tokens - budget_tokens)


def _document(kept: list[Chosen], made_at: datetime, engine: str) -> ContextDoc:
    refs = list(dict.fromkeys(chain.from_iterable(section.ids for section in kept)))
    text, tokens = _counted(made_at, engine, refs, markdown(TITLE, kept)) if kept else ("", 0)
    return ContextDoc(markdown=text, tokens=tokens, generated_at=made_at, engine=engine, refs=refs)


def _counted(made_at: datetime, engine: str, refs: Sequence[str], body: str) -> tuple[str, int]:
    # The count is part of what it counts.  A longer number never makes the count smaller, so this
    # ends, after one more digit at the most.
    tokens = 0
    while True:
        text = (
            f"---\ngenerated_at: {instant_text(made_at)}\nengine: {engine}\n"
            f"tokens: {tokens}\nrefs: [{', '.join(refs)}]\n---\n\n{body}"
        )
        if tokens_of(len(text)) == tokens:
            return text, tokens
        tokens = tokens_of(len(text))
