"""What a loopback server derives from its events: facts, after a delay, and the beliefs built of them."""

import itertools
import json
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tinymemory.testing.clock import Clock
from tinymemory.testing.event import Event
from tinymemory.testing.knobs import Knobs

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Belief:
    number: int
    """In the order beliefs were built."""
    shown: Json
    searchable: str


class Derived:
    """Facts and beliefs.

    A fact is not stored: an event has one from `extraction_delay` seconds after it was written, so that the
    delay can be changed while the server runs.
    """

    def __init__(self, clock: Clock, knobs: Knobs) -> None:
        self._clock = clock
        self._knobs = knobs
        self._numbers = itertools.count()
        self._expected: deque[Event] = deque()
        self._beliefs: dict[str, dict[str, _Belief]] = {}
        """By scope, then by the event they were built from."""

    def expect(self, event: Event) -> None:
        """Wait for an event's fact, to build a belief of it unasked."""
        if event.extracts:
            self._expected.append(event)

    def has_fact(self, event: Event) -> bool:
        """Whether an event's fact is there."""
        return event.extracts and self._clock.seconds() >= event.written + self._knobs.extraction_delay

    def is_pending(self, event: Event) -> bool:
        """Whether an event's fact is still to come."""
        return event.extracts and not self.has_fact(event)

    def build(self, scope: str, events: list[Event]) -> Json:
        """Make a belief of every fact of a scope that has none yet, and count what happened."""
        self._build_expected()
        held = self._beliefs.get(scope, {})
        facts = [event for event in events if self.has_fact(event)]
        due = [event for event in facts if event.id not in held]
        reasons = {
            "facts_pending_extraction": sum(map(self.is_pending, events)),
            "extraction_disabled": sum(not event.extracts for event in events),
            "belief_exists": len(facts) - len(due),
            "scope_empty": int(not events),
        }
        return {
            "built": len(due),
            "items": [self._believe(event) for event in due],
            "facts_scanned": len(facts),
            "events_scanned": len(events),
            "groups_considered": len(due),
            "groups_rejected": 0,
            "belief_events_found": 0,
            "reasons": {cause: count for cause, count in reasons.items() if count},
        }

    def scopes(self) -> list[str]:
        """The scopes that may hold a belief."""
        self._build_expected()
        return list(self._beliefs)

    def beliefs(self, scopes: Iterable[str], words: Collection[str] = ()) -> Iterator[Json]:
        """The beliefs of some scopes, newest first; given words, those whose JSON has one of them."""
        self._build_expected()
        found = [belief for scope in scopes for belief in self._beliefs.get(scope, {}).values()]
        found.sort(key=lambda belief: -belief.number)
        return (belief.shown for belief in found if _mentions(belief.searchable, words))

    def facts(self, events: Iterable[Event], words: Collection[str] = ()) -> Iterator[Json]:
        """The facts of some events, in their order; given words, those whose JSON has one of them."""
        for event in events:
            if self.has_fact(event):
                fact = {"id": f"fact_{event.id}", "scope": event.scope, "source": event.id}
                fact["text"] = event.own_text
                if _mentions(_searchable(fact) if words else "", words):
                    yield fact

    def add(self, belief: Json) -> None:
        """Put a belief nothing was built from."""
        self._keep(str(belief.get("scope")), f"added {next(self._numbers)}", belief)

    def forget(self, events: Iterable[Event]) -> int:
        """Remove the beliefs built from some events; returns how many."""
        self._build_expected()
        return sum(self._beliefs.get(event.scope, {}).pop(event.id, None) is not None for event in events)

    def forget_scope(self, scope: str) -> int:
        """Remove all beliefs of a scope; returns how many."""
        self._build_expected()
        return len(self._beliefs.pop(scope, {}))

    def _build_expected(self) -> None:
        # Nobody can tell a belief built the moment its fact was there from one built when somebody looks.
        while self._expected and (self._expected[0].gone or self.has_fact(self._expected[0])):
            event = self._expected.popleft()
            if (
                self._knobs.auto_build
                and not event.gone
                and event.id not in self._beliefs.get(event.scope, {})
            ):
                self._believe(event)

    def _believe(self, event: Event) -> Json:
        belief = {
            "id": f"belief_{event.id}",
            "source": event.id,
            "scope": event.scope,
            "stance": "supported",
            "confidence": 0.9,
            "claim": {
                "subject": {"type": "entity", "id": "ent_user", "name": "user"},
                "predicate": "said",
                "object": {"type": "literal", "datatype": "string", "value": event.own_text},
            },
            "valid_from": event.seen_at.isoformat(),
        }
        return self._keep(event.scope, event.id, belief)

    def _keep(self, scope: str, source: str, belief: Json) -> Json:
        kept = _Belief(next(self._numbers), belief, _searchable(belief))
        self._beliefs.setdefault(scope, {})[source] = kept
        return belief


def _searchable(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False).lower()


def _mentions(text: str, words: Collection[str]) -> bool:
    return not words or any(word in text for word in words)
