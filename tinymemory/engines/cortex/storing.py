"""Storing items: what is held already is looked up, the rest is written, and then waited for."""

from collections.abc import Iterable, Sequence

from tinymemory.engine import Item, WaitFor
from tinymemory.engines.cortex.layout import Event, LaidOut, lay_out
from tinymemory.engines.cortex.log import Appended, Log
from tinymemory.engines.cortex.reader import Reader
from tinymemory.engines.cortex.scope import Scope
from tinymemory.engines.cortex.together import each
from tinymemory.engines.cortex.waiting import Waiter
from tinymemory.engines.cortex.writer import Writer
from tinymemory.items import StoreReceipt
from tinymemory.meta import ItemKind

_WHOLE = None
"""The part that an event is which is all of its item."""


class Store:
    """The store operations of one log."""

    def __init__(self, log: Log, reader: Reader, writer: Writer, waiter: Waiter, target: int) -> None:
        self._log = log
        self._reader = reader
        self._writer = writer
        self._waiter = waiter
        self._target = target

    async def store(self, items: Sequence[Item], wait: WaitFor) -> list[StoreReceipt]:
        """Store valid items; see `MemoryEngine.store_many`."""
        # All of them before the first request: a refused item leaves nothing half done.
        laid_out = [lay_out(item, self._target) for item in items]
        held = {} if self._is_turn(laid_out, wait) else await self._held(laid_out)
        due = _due(laid_out, held)
        appended = await self._writer.write(due, is_indexed=wait is WaitFor.VISIBLE)
        outcomes = list(zip(due, appended, strict=True))
        if wait is WaitFor.VISIBLE:
            await self._wait_for(outcomes)
        return _receipts(laid_out, outcomes)

    def _is_turn(self, items: Sequence[LaidOut], wait: WaitFor) -> bool:
        """Whether this is a turn as it is logged, which is to cost one request.

        The direct wire's body key catches its retry; the hosted back-end lets no key through.
        """
        return (
            not self._log.surface.is_hosted
            and wait is WaitFor.ACCEPTED
            and len(items) == 1
            and items[0].scope.kind is ItemKind.CONVERSATION
            and len(items[0].events) == 1
        )

    async def _held(self, items: Iterable[LaidOut]) -> dict[str, set[int | None]]:
        """The parts of each item that the log holds."""
        ids_by_scope: dict[Scope, list[str]] = {}
        for item in items:
            ids_by_scope.setdefault(item.scope, []).append(item.id)

        async def in_scope(scope: Scope) -> dict[str, set[int | None]]:
            found = await self._reader.lookup(scope, ids_by_scope[scope])
            return {id_: {stored.envelope.part for stored in events} for id_, events in found.items()}

        held: dict[str, set[int | None]] = {}
        for found in await each(ids_by_scope, in_scope):
            held |= found
        return held

    async def _wait_for(self, outcomes: Iterable[tuple[Event, Appended]]) -> None:
        by_scope: dict[Scope, tuple[Event, str]] = {}
        for event, outcome in outcomes:
            by_scope.pop(event.scope, None)  # the scope written to last comes last
            by_scope[event.scope] = event, outcome.event_id
        last = list(by_scope.values())
        # The log is ordered: with the last event of a scope, all before it are listed.
        await each(last, lambda written: self._waiter.listed(*written))
        if last:
            await self._waiter.settled(*last[-1])


def _due(items: Iterable[LaidOut], held: dict[str, set[int | None]]) -> list[Event]:
    """The events to write: of each item once, and only what is missing of it."""
    due: list[Event] = []
    seen: set[str] = set()
    for item in items:
        parts = held.get(item.id, set())
        if item.id not in seen and _WHOLE not in parts:
            due += [event for event in item.events if event.part not in parts]
        seen.add(item.id)
    return due


def _receipts(items: Iterable[LaidOut], outcomes: Iterable[tuple[Event, Appended]]) -> list[StoreReceipt]:
    fresh = {event.item_id for event, outcome in outcomes if not outcome.is_replay}
    receipts: list[StoreReceipt] = []
    for item in items:
        receipts.append(StoreReceipt(id=item.id, replayed=item.id not in fresh))
        fresh.discard(item.id)  # a repeat in the batch is a replay of its first copy
    return receipts
