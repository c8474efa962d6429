"""What a loopback server derives from its events: facts, after a delay, and the beliefs built of them."""

import json
from collections import deque
from collections.abc import Collection, Iterable
from typing import Any

from tinymemory.testing.clock import Clock
from tinymemory.testing.event import Event
from tinymemory.testing.knobs import Knobs

Json = dict[str, Any]


class Derived:
    """Facts and beliefs.

    A fact is not stored: an event has one from `extraction_delay` seconds after it was written, so that the
    delay can be changed while the server runs.
    """

    def __init__(self, clock: Clock, knobs: Knobs) -> None:
        self._clock = clock
        self._knobs = knobs
        self._expected: deque[Event] = deque()
        self._beliefs: dict[str, Json] = {}
        """By the event they were built from; in the order they were built."""
        self._added: list[Json] = []

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
        facts = [event for event in events if self.has_fact(event)]
        due = [event for event in facts if event.id not in self._beliefs]
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

    def beliefs(self, scopes: Collection[str]) -> list[Json]:
        """The beliefs of some scopes, newest first."""
        self._build_expected()
        return [
            belief
            for belief in (*reversed(self._added), *reversed(self._beliefs.values()))
            if belief.get("scope") in scopes
        ]

    def scopes(self) -> set[str]:
        """The scopes that hold a belief."""
        self._build_expected()
        return {str(belief.get("scope")) for belief in (*self._added, *self._beliefs.values())}

    def add(self, belief: Json) -> None:
        """Put a belief nothing was built from."""
        self._added.append(belief)

    def forget(self, event_ids: Iterable[str]) -> int:
        """Remove the beliefs built from some events; returns how many."""
        self._build_expected()
        return sum(self._beliefs.pop(id_, None) is not None for id_ in event_ids)

    def forget_scope(self, scope: str) -> int:
        """Remove all beliefs of a scope; returns how many."""
        count = len(self.beliefs({scope}))
        self._beliefs = {id_: belief for id_, belief in self._beliefs.items() if belief["scope"] != scope}
        self._added = [belief for belief in self._added if belief.get("scope") != scope]
        return count

    def _build_expected(self) -> None:
        # Nobody can tell a belief built the moment its fact was there from one built when somebody looks.
        while self._expected and (self._expected[0].gone or self.has_fact(self._expected[0])):
            event = self._expected.popleft()
            if self._knobs.auto_build and not event.gone and event.id not in self._beliefs:
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
        self._beliefs[event.id] = belief
        return belief


def fact_of(event: Event) -> Json:
    """The fact drawn from one event."""
    return {"id": f"fact_{event.id}", "scope": event.scope, "source": event.id, "text": event.own_text}


def mentions(value: Json, words: Collection[str]) -> bool:
    """Whether one of the words is in a fact's or a belief's JSON; true when there are none."""
    text = json.dumps(value, ensure_ascii=False).lower()
    return not words or any(word in text for word in words)
