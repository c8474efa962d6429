"""Reading the log by item: walks, lookups by id, and items put together from their events."""

from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tinymemory.engines.cortex.envelope import Envelope
from tinymemory.engines.cortex.labels import item_label
from tinymemory.engines.cortex.log import Log
from tinymemory.engines.cortex.scope import Scope
from tinymemory.engines.cortex.stored import whole_hit
from tinymemory.engines.cortex.together import each
from tinymemory.query import Hit


@dataclass(frozen=True, slots=True)
class Stored:
    """One of our events, as the log holds it."""

    event_id: str
    envelope: Envelope


class Reader:
    """Our items in one log."""

    def __init__(self, log: Log) -> None:
        self._log = log

    async def walk(self, scope: Scope, labels: Sequence[str] = ()) -> AsyncIterator[Stored]:
        """Our events in a scope that carry any of the labels, newest first."""
        async for event in self._log.walk(scope, labels):
            envelope = event.envelope
            if envelope is not None and envelope.kind is scope.kind:
                yield Stored(event.id, envelope)

    async def lookup(self, scope: Scope, ids: Collection[str]) -> Mapping[str, list[Stored]]:
        """The events of each of these items that a scope holds; an item it holds none of is left out."""
        wanted = list(dict.fromkeys(ids))
        size = self._log.surface.labels_per_listing
        found: dict[str, list[Stored]] = {}
        for start in range(0, len(wanted), size):
            batch = wanted[start : start + size]
            async for stored in self.walk(scope, [item_label(item_id) for item_id in batch]):
                # A label is only a digest: two ids may share one.
                if stored.envelope.id in batch:
                    found.setdefault(stored.envelope.id, []).append(stored)
        return found

    async def assembled(self, scopes_by_id: Mapping[str, Scope]) -> Mapping[str, Hit]:
        """These items whole, each out of its scope; what cannot be put together is left out."""
        ids_by_scope: dict[Scope, list[str]] = {}
        for item_id, scope in scopes_by_id.items():
            ids_by_scope.setdefault(scope, []).append(item_id)

        async def of_scope(scope: Scope) -> Mapping[str, Hit]:
            return whole_hits(await self.lookup(scope, ids_by_scope[scope]))

        found = await each(ids_by_scope, of_scope)
        return {item_id: hit for hits in found for item_id, hit in hits.items()}


def whole_hits(stored: Mapping[str, Iterable[Stored]]) -> Mapping[str, Hit]:
    """The items that are all there."""
    hits = {item_id: whole_hit([event.envelope for event in events]) for item_id, events in stored.items()}
    return {item_id: hit for item_id, hit in hits.items() if hit is not None}
