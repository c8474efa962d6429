"""Checks of what an engine makes of memory: answers with citations, and beliefs."""

from tinymemory.conformance.errors import promise
from tinymemory.conformance.lab import QUERY, Lab
from tinymemory.engine import MemoryEngine
from tinymemory.errors import UnsupportedError
from tinymemory.meta import ItemKind
from tinymemory.namespace import Reach
from tinymemory.query import (
    BeliefsRequest,
    ConsolidateRequest,
    ConsolidateStatus,
    Consolidation,
    FetchRequest,
    Hit,
    RecallRequest,
)
from tinymemory.text import is_blank

BELIEF = "belief"


async def recall(lab: Lab) -> None:
    """An answer cites stored items, each of which can be read."""
    await lab.fill([lab.document("tide"), lab.conversation("tide", "agent:w"), lab.learning("tide")])
    answer = await lab.engine.recall(RecallRequest(question=QUERY, filter=lab.filter(), limit=5))
    promise(not is_blank(answer.answer), "a recall of what is stored answered nothing")
    promise(len(answer.citations) <= 5, f"a recall of 5 cites {len(answer.citations)} items")
    promise(bool(answer.citations), "a recall of what is stored cites nothing")
    found = {hit.id: hit for hit in await lab.got(cited.id for cited in answer.citations)}
    for cited in answer.citations:
        promise(cited.id in found, "a citation names an id that get does not answer")
        promise(
            found[cited.id].kind is cited.kind, f"a citation calls a {found[cited.id].kind} a {cited.kind}"
        )
    for what, request in (
        ("a recall with a blank question", RecallRequest(question=" ", filter=lab.filter())),
        ("a recall of no citations", RecallRequest(question=QUERY, filter=lab.filter(), limit=0)),
    ):
        await lab.refused(what, lambda request=request: lab.engine.recall(request))


async def consolidate(lab: Lab) -> None:
    """A build does what the descriptor declares; beliefs are learnings within the reach asked for."""
    team = Reach.subtree(lab.at("team:a"))
    await lab.fill([lab.document("built", "team:a"), lab.conversation("built", "team:a/agent:w")])
    twice = ConsolidateRequest(reach=team, kinds=(ItemKind.DOCUMENT, ItemKind.DOCUMENT))
    await lab.refused("a build that names a kind twice", lambda: lab.engine.consolidate(twice))
    for _ in range(2):
        await _ensure_build(lab.engine, ConsolidateRequest(reach=team))
    none = BeliefsRequest(reach=team, limit=0)
    await lab.refused("a reading of no beliefs", lambda: lab.engine.beliefs(none))
    for reach in (team, Reach.exact(lab.at("team:a/agent:w")), Reach.of(lab.at("team:a"))):
        for query in (None, QUERY):
            read = await lab.engine.beliefs(BeliefsRequest(reach=reach, limit=3, query=query))
            promise(len(read) <= 3, f"a reading of 3 beliefs answered {len(read)}")
            _ensure_beliefs(read, reach)
        for mode in lab.engine.descriptor.fetch_modes:
            request = FetchRequest(query=QUERY, mode=mode, filter=lab.filter(reach=reach), beliefs=2)
            page = await lab.engine.fetch(request)
            promise(len(page.beliefs) <= 2, f"a fetch with 2 beliefs brought {len(page.beliefs)}")
            _ensure_beliefs(page.beliefs, reach)
    other = await lab.engine.beliefs(BeliefsRequest(reach=Reach.subtree(lab.at("team:b")), limit=3))
    promise(other == [], "a team that stored nothing has beliefs")


async def _ensure_build(engine: MemoryEngine, request: ConsolidateRequest) -> None:
    declared = engine.descriptor.consolidation
    try:
        receipt = await engine.consolidate(request)
    except UnsupportedError:
        promise(
            declared is Consolidation.NONE, f"builds are declared as {declared} and a build is unsupported"
        )
        return
    match declared:
        case Consolidation.NONE:
            promise(False, "no builds are declared and a build was answered")
        case Consolidation.ON_DEMAND:
            fits = receipt.status is not ConsolidateStatus.SCHEDULED
            promise(fits, "builds are declared as on demand and a build was left to a schedule")
        case Consolidation.SCHEDULED:
            fits = receipt.status is ConsolidateStatus.SCHEDULED
            promise(fits, f"builds are declared as scheduled and a build was {receipt.status}")


def _ensure_beliefs(beliefs: list[Hit], reach: Reach) -> None:
    for belief in beliefs:
        promise(belief.kind is ItemKind.LEARNING, f"a belief is a {belief.kind}")
        promise(BELIEF in belief.meta.tags, f"a belief is not tagged `{BELIEF}`")
        promise(not is_blank(belief.text), "a belief says nothing")
        promise(reach.admits(belief.meta.namespace), "a belief lies out of the reach asked for")
