"""Forgetting: which events belong to what is to go, and their removal."""

from collections.abc import Mapping, Sequence

from tinymemory.engines.cortex.places import Places
from tinymemory.engines.cortex.reader import Reader
from tinymemory.engines.cortex.scope import Scope
from tinymemory.engines.cortex.selection import Selection
from tinymemory.engines.cortex.together import AT_ONCE, each
from tinymemory.engines.cortex.writer import Writer
from tinymemory.meta import MetaFilter

_EventIds = Mapping[str, Sequence[str]]
"""The events of each item."""


class Forgetting:
    """The removals of one log."""

    def __init__(self, places: Places, reader: Reader, writer: Writer) -> None:
        self._places = places
        self._reader = reader
        self._writer = writer

    async def ids(self, ids: Sequence[str]) -> int:
        """Remove items by id, wherever they are; returns how many there were.

        Raises:
            EngineError: There may be scopes the server does not list; nothing was removed.
        """
        scopes = await self._places.every()
        missing = set(ids)
        found: dict[Scope, _EventIds] = {}

        async def look(scope: Scope) -> _EventIds:
            stored = await self._reader.lookup(scope, missing)
            return {item_id: [event.event_id for event in events] for item_id, events in stored.items()}

        for start in range(0, len(scopes), AT_ONCE):
            if not missing:  # an item lies in one scope only: its id says which
                break
            group = scopes[start : start + AT_ONCE]
            found |= zip(group, await each(group, look), strict=True)
            missing -= {item_id for scope in group for item_id in found[scope]}
        return await self._remove(found)

    async def filter(self, wanted: MetaFilter) -> int:
        """Remove every item the filter selects; returns how many there were."""
        selection = Selection(wanted)
        scopes = await self._places.readable(wanted.reach, wanted.kinds)

        async def look(scope: Scope) -> _EventIds:
            events: dict[str, list[str]] = {}
            selected: set[str] = set()
            async for stored in self._reader.walk(scope, selection.labels):
                events.setdefault(stored.envelope.id, []).append(stored.event_id)
                if selection.admits(stored.envelope):
                    selected.add(stored.envelope.id)
            # With one of its events the whole item goes.
            return {item_id: events[item_id] for item_id in events if item_id in selected}

        return await self._remove(dict(zip(scopes, await each(scopes, look), strict=True)))

    async def _remove(self, found: Mapping[Scope, _EventIds]) -> int:
        for scope, items in found.items():
            await self._writer.forget(scope, [event_id for events in items.values() for event_id in events])
        return len({item_id for items in found.values() for item_id in items})
