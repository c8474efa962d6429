"""Choosing what each section lists: beliefs merged in, every item once, limits kept."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, zip_longest

from tinymemory.query import Hit
from tinymemory.recall.plan import RecallPlan, SectionPlan
from tinymemory.recall.reading import Found
from tinymemory.recall.rendering import bullet
from tinymemory.text import trimmed


@dataclass(slots=True)
class Chosen:
    """What a section will show: bullets with their ids, or an answer with the ids it cites."""

    heading: str
    ids: list[str] = field(default_factory=list[str])
    bullets: list[str] = field(default_factory=list[str])
    answer: str | None = None


def choose(plan: RecallPlan, found: Sequence[Found]) -> list[Chosen]:
    """What each section of the plan shows, in order; one that shows nothing is there, empty."""
    beliefs = list(_distinct(chain.from_iterable(section.beliefs for section in found)))
    listed: set[str] = set()
    chosen: list[Chosen] = []
    for planned, result in zip(plan.sections, found, strict=True):
        if result.answer is not None:
            ids = list(dict.fromkeys(citation.id for citation in result.answer.citations))
            chosen.append(Chosen(planned.section.heading, ids=ids, answer=trimmed(result.answer.answer)))
            continue
        section = _listed(plan, planned, result, beliefs, listed)
        listed.update(section.ids)
        chosen.append(section)
    return chosen


def _listed(
    plan: RecallPlan, planned: SectionPlan, found: Found, beliefs: list[Hit], listed: set[str]
) -> Chosen:
    section = planned.section

    def free(hits: Iterable[Hit]) -> list[Hit]:
        return [hit for hit in hits if hit.id not in listed and plan.admits(hit, section)]

    candidates = free(found.hits)
    if planned.is_learnings and found.failure is None:
        fitting = (belief for belief in beliefs if section.filter.matches(belief.kind, belief.meta))
        candidates = _interleaved(candidates, free(fitting))
    shown = ((hit.id, line) for hit in _distinct(candidates) if (line := bullet(hit)))
    chosen = Chosen(section.heading)
    for id_, line in islice(shown, section.limit):
        chosen.ids.append(id_)
        chosen.bullets.append(line)
    return chosen


def _interleaved(stored: list[Hit], beliefs: list[Hit]) -> list[Hit]:
    pairs = zip_longest(stored, beliefs)
    return [hit for hit in chain.from_iterable(pairs) if hit is not None]


def _distinct(hits: Iterable[Hit]) -> Iterable[Hit]:
    seen: set[str] = set()
    for hit in hits:
        if hit.id not in seen:
            seen.add(hit.id)
            yield hit
