"""Fetching and answering: packs of several scopes, read at once and told as one."""

from collections.abc import Awaitable, Callable, Sequence

from tinymemory.engines.cortex.beliefs import belief_hits, merged_beliefs
from tinymemory.engines.cortex.cursors import fetch_cursor, parse_fetch_cursor
from tinymemory.engines.cortex.hints import HintGate
from tinymemory.engines.cortex.log import Answer, Log
from tinymemory.engines.cortex.merging import Ranked, merged, ranked
from tinymemory.engines.cortex.packs import Budget, Pack, answer_budget, belief_budget, fetch_budget
from tinymemory.engines.cortex.places import Places
from tinymemory.engines.cortex.reader import Reader
from tinymemory.engines.cortex.scope import Scope
from tinymemory.engines.cortex.selection import Selection
from tinymemory.engines.cortex.sharing import now
from tinymemory.engines.cortex.stored import event_hit, meta_of_piece
from tinymemory.engines.cortex.together import each
from tinymemory.errors import EngineError, NotFoundError
from tinymemory.meta import ItemKind
from tinymemory.namespace import Reach
from tinymemory.query import Citation, FetchPage, FetchRequest, Hit, RecallAnswer, RecallRequest, TimeHint

ANSWER_ROUNDS = 3


class Ranking:
    """The ranked reads of one log."""

    def __init__(self, log: Log, places: Places, reader: Reader, gate: HintGate) -> None:
        self._log = log
        self._places = places
        self._reader = reader
        self._gate = gate

    async def fetch(self, request: FetchRequest) -> FetchPage:
        """See `MemoryEngine.fetch`."""
        began = now()
        offset = parse_fetch_cursor(request.cursor) if request.cursor is not None else 0
        end = offset + request.limit
        beliefs = request.beliefs if offset == 0 else 0
        selection = Selection(request.filter)
        reach, kinds = request.filter.reach, request.filter.kinds
        pack = self._packer(request.query, fetch_budget(end, beliefs), selection, request.refers_to, began)
        following = self._places.following(reach, kinds, began=began)
        packs = await each(self._places.leading(reach, kinds), pack, then=following)
        rankings = [ranked(scope, pack, selection, [scope.kind]) for scope, pack in packs]
        found = merged(rankings, request.refers_to, end + 1)  # one more says that a page follows
        lists = [belief_hits(pack.beliefs, request.filter.reach) for _, pack in packs] if beliefs else []
        return FetchPage(
            hits=await self._hits(found[offset:end], offset),
            next_cursor=fetch_cursor(end) if len(found) > end else None,
            beliefs=merged_beliefs(lists, beliefs),
        )

    async def recall(self, request: RecallRequest) -> RecallAnswer:
        """See `MemoryEngine.recall`."""
        reach, kinds = request.filter.reach, request.filter.kinds
        find = self._places.held if reach is None else self._places.readable
        # A sort keeps the order of scopes among those equally deep.
        scopes = sorted(await find(reach, kinds), key=lambda scope: -scope.namespace.depth)
        if not scopes:
            return RecallAnswer(answer="")
        for _ in range(ANSWER_ROUNDS):
            answered = await self._round(request, scopes)
            if answered is not None:
                return answered
        raise NotFoundError(
            f"the packs of this question were dropped {ANSWER_ROUNDS} times before they were answered from: "
            "something is being forgotten all the while"
        )

    async def beliefs(
        self, scopes: Sequence[Scope], query: str, limit: int, reach: Reach | None
    ) -> list[list[Hit]]:
        """Each scope's beliefs that a reach admits, ranked against a query."""
        packs = await each(scopes, self._packer(query, belief_budget(limit)))
        return [belief_hits(pack.beliefs, reach) for _, pack in packs]

    async def _round(self, request: RecallRequest, scopes: Sequence[Scope]) -> RecallAnswer | None:
        """One set of packs and one question; None when the pack was gone by then."""
        selection = Selection(request.filter)
        kinds = request.filter.kinds or tuple(ItemKind)
        pack = self._packer(request.question, answer_budget(request.limit), selection, request.refers_to)
        packs = await each(scopes, pack)
        rankings = [list(ranked(scope, pack, selection, kinds)) for scope, pack in packs]
        best = max(range(len(packs)), key=lambda index: len(rankings[index]))
        try:
            answer = await self._ask(*packs[best], request)
        except NotFoundError:
            return None
        cited = merged(rankings, request.refers_to, request.limit)
        return RecallAnswer(
            answer=answer.text, citations=[_citation(entry) for entry in cited], model=answer.model
        )

    async def _ask(self, scope: Scope, pack: Pack, request: RecallRequest) -> Answer:
        if pack.id is None:
            raise EngineError(f"the pack of {scope} has no id to answer from")
        return await self._log.answer(scope, pack.id, request.question, request.instructions)

    def _packer(
        self,
        query: str,
        budget: Budget,
        selection: Selection | None = None,
        hint: TimeHint | None = None,
        began: int | None = None,
    ) -> Callable[[Scope], Awaitable[tuple[Scope, Pack]]]:
        """What reads one scope's pack."""
        labels = selection.labels if selection is not None else []

        async def pack(scope: Scope) -> tuple[Scope, Pack]:
            found = await self._gate.recall(
                self._log, scope, query, budget, labels=labels, hint=hint, began=began
            )
            return scope, found

        return pack

    async def _hits(self, page: Sequence[Ranked], offset: int) -> list[Hit]:
        """The page's items; one that is split over events and cannot be put together is left out."""
        split = {
            entry.stored.envelope.id: entry.scope
            for entry in page
            if entry.stored.envelope.kind is ItemKind.CONVERSATION and not entry.stored.envelope.is_whole
        }
        whole = await self._reader.assembled(split)
        hits: list[Hit] = []
        for rank, entry in enumerate(page, offset):
            envelope = entry.stored.envelope
            hit = whole.get(envelope.id) if envelope.id in split else event_hit(envelope)
            if hit is not None:
                hits.append(hit.model_copy(update={"score": 1 / (1 + rank)}))
        return hits


def _citation(entry: Ranked) -> Citation:
    envelope = entry.stored.envelope
    return Citation(id=envelope.id, kind=envelope.kind, snippet=envelope.text, meta=meta_of_piece(envelope))
