"""Rankings of several scopes as one: rank by rank, each thing once."""

import sys
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import TypeVar

from tinymemory.engines.cortex.packs import Pack
from tinymemory.engines.cortex.reader import Stored
from tinymemory.engines.cortex.scope import Scope
from tinymemory.engines.cortex.selection import Selection
from tinymemory.meta import ItemKind
from tinymemory.query import TimeHint

T = TypeVar("T")
_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Ranked:
    """An item's best event in one scope's ranking."""

    scope: Scope
    stored: Stored


def ranked(scope: Scope, pack: Pack, selection: Selection, kinds: Iterable[ItemKind]) -> Iterator[Ranked]:
    """What a pack holds of the wanted kinds that is selected, best first, each item at its best rank.

    Read as it is asked for: a pack has three events for each hit wanted, and most are never looked at.
    """
    kept = (
        Ranked(scope, Stored(event.id, envelope))
        for event in pack.events
        if (envelope := event.envelope) is not None and envelope.kind in kinds and selection.admits(envelope)
    )
    return distinct(kept, _item_id)


def interleaved(rankings: Iterable[Iterable[T]]) -> Iterator[T]:
    """Every ranking's first, then every ranking's second, and so on."""
    for row in zip_longest(*rankings, fillvalue=_ABSENT):
        yield from (value for value in row if value is not _ABSENT)  # pyright: ignore[reportReturnType]


def distinct(values: Iterable[T], key: Callable[[T], Hashable]) -> Iterator[T]:
    """The first of those with the same key."""
    seen: set[Hashable] = set()
    for value in values:
        if key(value) not in seen:
            seen.add(key(value))
            yield value


def lifted(merged: Iterable[Ranked], hint: TimeHint | None) -> Iterable[Ranked]:
    """Those observed on a hinted day first; the order within stays, and nothing is dropped.

    The server lifts them within each scope, which interleaving the scopes would undo.
    """
    if hint is None:
        return merged

    def is_elsewhen(entry: Ranked) -> bool:
        at = entry.stored.envelope.meta.observed_at
        try:
            return at is None or not hint.covers(at)
        except OverflowError:  # a day at either end of the calendar, in a zone where it is beyond it
            return True

    return sorted(merged, key=is_elsewhen)


def merged(rankings: Iterable[Iterable[Ranked]], hint: TimeHint | None, most: int) -> list[Ranked]:
    """The first of several scopes' rankings told as one, each item once."""
    # A cursor or a limit may be any number, and `islice` takes none that is larger.
    return list(islice(lifted(distinct(interleaved(rankings), _item_id), hint), min(most, sys.maxsize)))


def _item_id(entry: Ranked) -> str:
    return entry.stored.envelope.id
