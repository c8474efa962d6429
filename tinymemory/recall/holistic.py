"""Holistic recall: one read across several scopes, rendered as one pack for the prompt."""

from itertools import chain

from tinymemory.engine import MemoryEngine
from tinymemory.recall.budget import fit, markdown
from tinymemory.recall.pack import ContextPack, PackSection, SkippedSection, tokens_of
from tinymemory.recall.plan import plan
from tinymemory.recall.reading import Found, read_sections
from tinymemory.recall.request import HolisticRecall
from tinymemory.recall.selection import Chosen, choose

EMPTY = "empty"


async def holistic_recall(engine: MemoryEngine, request: HolisticRecall) -> ContextPack:
    """Read all sections at once and render what they hold within the budget.

    No engine failure is raised: a section that fails or finds nothing is in `skipped`.  Each item
    shows once, in the first section that lists it; beliefs show among the learnings.

    Raises:
        InvalidRequestError: The budget or a limit is below 1, or a title, heading or question blank.
    """
    request.ensure_valid()
    planned = plan(request, engine.descriptor)
    found = await read_sections(engine, planned)
    chosen = choose(planned, found)
    skipped = _skipped(chosen, found)
    kept = fit(request.title, chosen, request.budget_tokens)
    text = markdown(request.title, kept)
    return ContextPack(
        markdown=text,
        tokens=tokens_of(len(text)),
        refs=list(dict.fromkeys(chain.from_iterable(section.ids for section in kept))),
        sections=[PackSection(heading=section.heading, refs=section.ids) for section in kept],
        skipped=skipped,
        engine=engine.descriptor.id,
    )


def _skipped(chosen: list[Chosen], found: list[Found]) -> list[SkippedSection]:
    return [
        SkippedSection(heading=section.heading, reason=result.failure or EMPTY)
        for section, result in zip(chosen, found, strict=True)
        if not section.bullets and section.answer is None
    ]
