"""The in-memory event log behind both wires: append, list, forget, erase, and the registered scopes."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tinymemory.testing.clock import Clock
from tinymemory.testing.derived import Derived
from tinymemory.testing.event import Event
from tinymemory.testing.knobs import Knobs
from tinymemory.testing.refusal import RefusalError, invalid_body
from tinymemory.testing.schema import (
    MAX_FORGET_IDS,
    MAX_KEY_BYTES,
    MAX_LABEL_BYTES,
    MAX_LABELS,
    MAX_TEXT_BYTES,
    AppendBody,
    ForgetBody,
    ensure_registered_types,
    ensure_scope,
    is_within,
    parse_body,
)

KEY_LIFE = 24 * 3600.0
"""Seconds a body key is remembered."""
CASCADES = ("none", "derived_only", "redact_events")


@dataclass(frozen=True, slots=True)
class Appended:
    """What the log did with one append."""

    event_id: str
    replayed: bool


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What one forget removed."""

    events: int
    beliefs: int
    requested: int
    matched: int


@dataclass(frozen=True, slots=True)
class _Key:
    event_id: str
    body: str
    taken: float


class EventLog:
    """Every event, in the order it was written.

    Scopes are the unprefixed paths callers name, on the hosted wire too.  Its methods beyond the routes'
    own (`build`, `pending`, `lose_last` …) are a test's hand inside the server.
    """

    def __init__(self, clock: Clock, knobs: Knobs, *, closed_types: bool) -> None:
        self._clock = clock
        self._knobs = knobs
        self._closed_types = closed_types
        self._count = self._audits = self._erasures = 0
        self._scopes: dict[str, _Scope] = {}
        self._keys: dict[str, _Key] = {}
        self.generation = 0
        """Counts the removals of events; a pack of an older one is dropped."""
        self.derived = Derived(clock, knobs)
        """Facts and beliefs."""

    # What the routes do.

    def append(self, body: dict[str, Any]) -> Appended:
        """Write one event, or find it by its key.

        Raises:
            RefusalError: The body, the scope, the labels, the key or the text, checked in this order.
        """
        parsed = parse_body(AppendBody, body)
        key = parsed.idempotency_key
        if key is not None and len(key.encode()) > MAX_KEY_BYTES:
            raise invalid_body(f"idempotency_key: over {MAX_KEY_BYTES} bytes")
        ensure_scope(parsed.scope)
        if self._closed_types:
            ensure_registered_types(parsed.scope)
        _ensure_labels(parsed.context.labels)
        digest = _digest(body)
        if (held := self._held(key)) is not None:
            if held.body != digest:
                raise RefusalError(409, "IDEMPOTENCY_CONFLICT", "the key is known with another body")
            return Appended(held.event_id, replayed=True)
        _ensure_text(parsed)
        event = self._write(parsed)
        if key is not None:
            self._keys[key] = _Key(event.id, digest, self._clock.seconds())
        return Appended(event.id, replayed=False)

    def newest_first(self, scope: str, labels: list[str]) -> list[Event]:
        """The events of exactly this scope that carry one of the labels (any, when none is named)."""
        held = self._scopes.get(scope)
        return held.newest_first(labels) if held else []

    def within(self, scope: str, view: str) -> list[Event]:
        """The events a view of a scope reads, oldest first."""
        if view == "granular":
            return self.events(scope)
        paths = [path for path in self._scopes if is_within(path, scope)]
        if view == "holistic":
            paths += [path for path in self._scopes if path != scope and is_within(scope, path)]
        events = [event for path in paths for event in self._scopes[path].events]
        return sorted(events, key=_written_order)

    def forget(self, body: dict[str, Any]) -> Forgotten:
        """Remove the named events of a scope, or what was derived from them, as the cascade says."""
        parsed = parse_body(ForgetBody, body)
        cascade = parsed.cascade or "derived_only"
        if cascade not in CASCADES:
            raise RefusalError(400, "INVALID_CASCADE", f"cascade must be one of {', '.join(CASCADES)}")
        ids = _selected(parsed)
        if ids and parsed.confirm_all:
            raise RefusalError(
                400, "AMBIGUOUS_SELECTOR_CONFIRM_ALL", "ids and confirm_all exclude each other"
            )
        if not ids and not parsed.confirm_all:
            raise RefusalError(
                422, "EMPTY_SELECTOR_WITHOUT_CONFIRMATION", "an empty selector is the whole scope"
            )
        if len(ids) > MAX_FORGET_IDS:
            raise invalid_body(f"selector.memory_ids: over {MAX_FORGET_IDS}")
        own = self.events(parsed.scope)
        if parsed.confirm_all:
            return self._forget_all(parsed.scope, own, cascade)
        wanted = set(ids)
        named = [event for event in own if event.id in wanted]
        redacted = named if cascade == "redact_events" else []
        beliefs = 0 if cascade == "none" else self.derived.forget(named)
        self._remove(redacted, release_keys=True)
        return Forgotten(len(redacted), beliefs, len(ids), len(named))

    def scopes(self) -> list[str]:
        """Every scope ever written to, and the padding, sorted."""
        numbers = range(self._knobs.padding_scopes)
        padding = (f"app:tinymemory/agent:pad-{number:04}/app:learnings" for number in numbers)
        return sorted({*self._scopes, *padding})

    def erase(self, scope: str) -> int:
        """Remove a scope's events and release their keys, and what lies below, whose keys stay.

        Returns:
            How many registered scopes that was.
        """
        paths = [path for path in self._scopes if is_within(path, scope)]
        for path in paths:
            self.derived.forget_scope(path)
            self._remove(self.events(path), release_keys=path == scope)
        self.generation += 1
        return len(paths)

    def erase_all(self) -> int:
        """Erase every scope, the deepest first, so that every key is released; returns how many."""
        paths = sorted(self._scopes, key=lambda path: path.count("/"), reverse=True)
        for path in paths:
            self.erase(path)
        return len(paths)

    def next_audit(self) -> str:
        """A number for the record of a forget."""
        self._audits += 1
        return f"audit_{self._audits}"

    def next_erasure(self) -> str:
        """A number for an erasure."""
        self._erasures += 1
        return f"erasure_{self._erasures}"

    # What a test does from outside.

    def events(self, scope: str) -> list[Event]:
        """The events of exactly this scope, oldest first."""
        held = self._scopes.get(scope)
        return list(held.events) if held else []

    def pending(self, scope: str) -> int:
        """How many facts of a scope are still to be extracted."""
        return sum(map(self.derived.is_pending, self.events(scope)))

    def extracted(self, scope: str) -> int:
        """How many facts of a scope are there."""
        return sum(map(self.derived.has_fact, self.events(scope)))

    def build(self, scope: str) -> dict[str, Any]:
        """Build a scope's beliefs, as the route does."""
        return self.derived.build(scope, self.events(scope))

    def beliefs(self, scope: str) -> list[dict[str, Any]]:
        """A scope's beliefs, newest first."""
        return list(self.derived.beliefs([scope]))

    def add_belief(self, belief: dict[str, Any]) -> None:
        """Put a belief of a test's own making where its `scope` says: contested, malformed, foreign."""
        self.derived.add(belief)

    def lose_last(self, scope: str) -> None:
        """Lose the newest event of a scope and its key, as if it had never been written."""
        event = self._scopes[scope].events[-1]
        self.derived.forget([event])
        self._remove([event], release_keys=True, drop_packs=False)

    def drop_scope(self, path: str) -> None:
        """Forget that a scope was ever registered, and what it holds."""
        self.derived.forget_scope(path)
        self._remove(self.events(path), release_keys=True)
        self._scopes.pop(path, None)

    # Inside.

    def _held(self, key: str | None) -> _Key | None:
        held = None if key is None else self._keys.get(key)
        return held if held and self._clock.seconds() - held.taken < KEY_LIFE else None

    def _write(self, body: AppendBody) -> Event:
        self._count += 1
        event = Event.of(
            body,
            number=self._count,
            recorded_at=self._clock.now(),
            written=self._clock.seconds(),
        )
        self._scopes.setdefault(event.scope, _Scope()).add(event)
        self.derived.expect(event)
        return event

    def _forget_all(self, scope: str, own: list[Event], cascade: str) -> Forgotten:
        if cascade == "none":
            return Forgotten(0, 0, len(own), len(own))
        beliefs = self.derived.forget_scope(scope)
        self._remove(own, release_keys=False)
        return Forgotten(len(own), beliefs, len(own), len(own))

    def _remove(self, events: Iterable[Event], *, release_keys: bool, drop_packs: bool = True) -> None:
        gone: defaultdict[str, set[str]] = defaultdict(set)
        for event in events:
            gone[event.scope].add(event.id)
            event.gone = True
            if release_keys and event.key is not None:
                self._keys.pop(event.key, None)
        for scope, ids in gone.items():
            self._scopes[scope].remove(ids)
        if gone and drop_packs:
            self.generation += 1


class _Scope:
    """The events of one scope, oldest first, and by label: lookups are by label, and many."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._by_label: defaultdict[str, list[Event]] = defaultdict(list)

    def add(self, event: Event) -> None:
        self.events.append(event)
        for label in set(event.labels):
            self._by_label[label].append(event)

    def newest_first(self, labels: list[str]) -> list[Event]:
        if not labels:
            return self.events[::-1]
        found = {event.id: event for label in labels for event in self._by_label.get(label, ())}
        return sorted(found.values(), key=_written_order, reverse=True)

    def remove(self, ids: set[str]) -> None:
        left = [event for event in self.events if event.id not in ids]
        self.events = []
        self._by_label.clear()
        for event in left:
            self.add(event)


def _written_order(event: Event) -> int:
    return event.number


def _ensure_labels(labels: list[str]) -> None:
    if len(labels) > MAX_LABELS:
        raise invalid_body(f"context.labels: over {MAX_LABELS}")
    if any(len(label.encode()) > MAX_LABEL_BYTES for label in labels):
        raise invalid_body(f"context.labels: one over {MAX_LABEL_BYTES} bytes")


def _ensure_text(body: AppendBody) -> None:
    text = body.content.text
    if not text:
        raise RefusalError(422, "INVALID_ENVELOPE", "content.text is empty")
    if len(f"[{body.content.role}] {text}".encode()) > MAX_TEXT_BYTES:
        raise RefusalError(
            422, "INVALID_ENVELOPE", f"content.text is over {MAX_TEXT_BYTES} bytes with its role"
        )


def _digest(body: dict[str, Any]) -> str:
    """What makes a body the same: all but its key and when it was observed."""
    identity = {name: value for name, value in body.items() if name != "idempotency_key"}
    context = identity.get("context")
    if isinstance(context, dict):
        identity["context"] = {**context, "observed_at": None}
    canonical = json.dumps(identity, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _selected(body: ForgetBody) -> list[str]:
    ids: Any = (body.selector or {}).get("memory_ids", [])
    if not isinstance(ids, list) or not all(isinstance(id_, str) for id_ in ids):  # pyright: ignore[reportUnknownVariableType]  # the wire's own JSON
        raise invalid_body("selector.memory_ids: a list of ids is due")
    return ids  # pyright: ignore[reportUnknownVariableType]  # checked above
