"""The plan of a recall: for each section the read that fills it, and how much that asks for."""

from dataclasses import dataclass
from functools import cached_property

from tinymemory.engine import EngineDescriptor
from tinymemory.meta import ItemKind
from tinymemory.query import FetchMode, Hit
from tinymemory.recall.request import Answer, Fetch, HolisticRecall, ScopeSection
from tinymemory.redaction import same_id
from tinymemory.text import is_blank


@dataclass(frozen=True)
class SectionPlan:
    """How one section is read."""

    section: ScopeSection
    ask: int
    """How many to read, so that `section.limit` remain of them once exclusions and repeats are gone."""
    query: str | None
    """What to rank for; None reads the newest instead.  An answer's is for its fallback."""

    @property
    def is_learnings(self) -> bool:
        """Whether beliefs belong here: a list that may hold learnings."""
        kinds = self.section.filter.kinds
        return not isinstance(self.section.query, Answer) and (not kinds or ItemKind.LEARNING in kinds)


@dataclass(frozen=True)
class RecallPlan:
    """How a whole request is read."""

    request: HolisticRecall
    mode: FetchMode | None
    """None when the engine ranks nothing."""
    sections: tuple[SectionPlan, ...]
    beliefs: int
    """How many beliefs every fetch brings along."""

    @cached_property
    def excluded_ids(self) -> frozenset[str]:
        """Ids no section lists."""
        return frozenset(self.request.exclude_ids)

    def admits(self, hit: Hit, section: ScopeSection) -> bool:
        """Whether a section may list a hit, as far as exclusions go."""
        return (
            hit.id not in self.excluded_ids
            and not self._is_in_prompt(hit)
            and not (section.except_within is not None and section.except_within.admits(hit.meta.namespace))
        )

    def _is_in_prompt(self, hit: Hit) -> bool:
        window = self.request.exclude_thread
        # What was learnt from a thread is no turn of it.
        if window is None or hit.kind is not ItemKind.CONVERSATION:
            return False
        turns = hit.meta.turns
        is_late = window.from_turn == 0 or (turns is not None and turns.last >= window.from_turn)
        return is_late and same_id(hit.meta.thread_id, window.thread_id)


def plan(request: HolisticRecall, descriptor: EngineDescriptor) -> RecallPlan:
    """Plan the reads of a valid request on an engine."""
    mode = _best_mode(descriptor)
    sections: list[SectionPlan] = []
    extra = len(set(request.exclude_ids))
    for section in request.sections:
        in_prompt = section.limit if request.exclude_thread is not None else 0
        query = _query(section, request) if mode is not None else None
        sections.append(SectionPlan(section, section.limit + extra + in_prompt, query))
        extra += section.limit
    beliefs = next((planned.ask for planned in sections if planned.is_learnings), 0)
    return RecallPlan(request, mode, tuple(sections), beliefs)


def _best_mode(descriptor: EngineDescriptor) -> FetchMode | None:
    if descriptor.supports(FetchMode.HYBRID):
        return FetchMode.HYBRID
    return next(iter(descriptor.fetch_modes), None)


def _query(section: ScopeSection, request: HolisticRecall) -> str | None:
    match section.query:
        case Fetch(query=query):
            return _unless_blank(query) or _unless_blank(request.query)
        case Answer(question=question):
            return question
        case _:
            return None


def _unless_blank(text: str | None) -> str | None:
    return None if text is None or is_blank(text) else text
