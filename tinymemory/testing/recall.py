"""Recall and answer: packs of what a query ranks, kept for a minute."""

import sys
from dataclasses import dataclass
from datetime import UTC, tzinfo
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

from tinymemory.testing.clock import Clock
from tinymemory.testing.event import Event, cut_to_bytes
from tinymemory.testing.knobs import Knobs
from tinymemory.testing.log import EventLog
from tinymemory.testing.refusal import RefusalError, invalid_body
from tinymemory.testing.schema import RecallBody, Temporal, ensure_scope, is_within, parse_body

PACK_LIFE = 60.0
"""Seconds a pack can be answered from."""
EVENTS_BY_DEFAULT = 20

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Pack:
    scope: str
    made: float
    generation: int


class Packs:
    """The packs a server has handed out."""

    def __init__(self, log: EventLog, clock: Clock, knobs: Knobs) -> None:
        self._log = log
        self._clock = clock
        self._knobs = knobs
        self._count = 0
        self._packs: dict[str, _Pack] = {}

    def recall(self, body: Json) -> Json:
        """Rank a scope's events against a query, and keep the pack.

        Paths in the answer are unprefixed.

        Raises:
            RefusalError: The body is not of the closed schema, or its days or zone make no sense.
        """
        if self._knobs.refuse_recall:
            raise invalid_body("recall is refused")
        if self._knobs.refuse_temporal and "temporal" in body:
            raise invalid_body("temporal: unknown field")
        parsed = parse_body(RecallBody, body)
        ensure_scope(parsed.scope)
        ranked = self._ranked(parsed)
        shown, evicted = _within_budget(ranked, parsed, role_prefix=self._knobs.recall_role_prefix)
        return {
            "pack_id": self._keep(parsed.scope),
            "layers": {layer: self._layer(layer, parsed, shown) for layer in parsed.include},
            "context_block": "\n".join(map(_context_line, shown)),
            "warnings": [],
            "diagnostics": {"knapsack_evictions": evicted},
            "provenance": {"trail": []},
        }

    def answer(self, body: Json) -> Json:
        """Answer a question from a pack."""
        if self._knobs.answer_down:
            raise RefusalError(503, "ANSWER_UNAVAILABLE", "no model is configured")
        pack_id = body.get("use_pack_id")
        if not isinstance(pack_id, str) or not pack_id:
            raise RefusalError(400, "MISSING_PACK", "use_pack_id is missing")
        if self._knobs.take("expire_packs"):
            self._packs.clear()
        pack = self._live(pack_id)
        if pack is None:
            raise RefusalError(404, "NOT_FOUND", "the pack is gone")
        if body.get("scope") != pack.scope:
            raise RefusalError(400, "PACK_SCOPE_MISMATCH", "the pack is of another scope")
        question = body.get("question")
        if not isinstance(question, str) or not question:
            raise invalid_body("question: field required")
        text = self._knobs.answer_text
        return {
            "answer": f"from the pack: {question}" if text is None else text,
            "citations": [],
            "diagnostics": {"answer_model": "reasoning"},
        }

    def _keep(self, scope: str) -> str:
        now = self._clock.seconds()
        # Dead packs leave in the order they came: a server that runs for long stays small.
        for pack_id in [id_ for id_, pack in self._packs.items() if now - pack.made >= PACK_LIFE]:
            del self._packs[pack_id]
        self._count += 1
        pack_id = f"pack_{self._count}"
        self._packs[pack_id] = _Pack(scope, now, self._log.generation)
        return pack_id

    def _live(self, pack_id: str) -> _Pack | None:
        pack = self._packs.get(pack_id)
        if pack is None or pack.generation != self._log.generation:
            return None
        return pack if self._clock.seconds() - pack.made < PACK_LIFE else None

    def _ranked(self, body: RecallBody) -> list[Event]:
        labels = body.filters.metadata.labels
        words = query_words(body.query)
        viewed = reversed(self._log.within(body.scope, body.view))
        newest = [event for event in viewed if event.carries_any(labels)]
        if words:
            scored = [(sum(word in event.searchable for word in words), event) for event in newest]
            scored = [pair for pair in scored if pair[0]]
            scored.sort(key=lambda pair: -pair[0])
            newest = [event for _, event in scored]
        return _hinted_first(newest, body.temporal)

    def _layer(self, layer: str, body: RecallBody, shown: list[Json]) -> list[Json]:
        if layer == "events":
            return shown
        limit = min(body.budgets.per_layer_limits.get(layer, 0), sys.maxsize)
        words, derived = query_words(body.query), self._log.derived
        if layer == "beliefs":
            scopes = [path for path in derived.scopes() if _is_viewed(path, body)]
            return list(islice(derived.beliefs(scopes, words), limit))
        if layer == "facts":
            newest = reversed(self._log.within(body.scope, body.view))
            return list(islice(derived.facts(newest, words), limit))
        return []


def query_words(query: str) -> list[str]:
    """The distinct words of a query that rank: trimmed of punctuation, lower case, three characters up."""
    words = (_trimmed(word).lower() for word in query.split())
    return list(dict.fromkeys(word for word in words if len(word) >= 3))


def _trimmed(word: str) -> str:
    start, end = 0, len(word)
    while start < end and not word[start].isalnum():
        start += 1
    while end > start and not word[end - 1].isalnum():
        end -= 1
    return word[start:end]


def _is_viewed(path: str, body: RecallBody) -> bool:
    match body.view:
        case "granular":
            return path == body.scope
        case "descend":
            return is_within(path, body.scope)
        case "holistic":
            return is_within(path, body.scope) or is_within(body.scope, path)


def _hinted_first(events: list[Event], temporal: Temporal | None) -> list[Event]:
    if temporal is None:
        return events
    zone, days = _zone(temporal.timezone), temporal.refers_during
    if days is None:
        return events
    if days.from_ > days.to:
        raise invalid_body("temporal.refers_during: from is after to")
    zone = zone if days.zone is None else _zone(days.zone)

    def is_elsewhen(event: Event) -> bool:
        try:
            day = event.seen_at.astimezone(zone).date()
        except OverflowError:  # the first or last hours there are, in a zone beyond them
            return True
        return not days.from_ <= day <= days.to

    return sorted(events, key=is_elsewhen)


def _zone(name: str | None) -> tzinfo:
    if name is None:
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise invalid_body(f"temporal.timezone: {name} is no zone") from error


def _within_budget(events: list[Event], body: RecallBody, *, role_prefix: bool) -> tuple[list[Json], int]:
    """The events that fit, each as its JSON, and how many were left out for want of room."""
    if "events" not in body.include:
        return [], 0
    chosen = events[: body.budgets.per_layer_limits.get("events", EVENTS_BY_DEFAULT)]
    room = body.budgets.max_tokens
    shown: list[Json] = []
    for event in chosen:
        prefix = f"[{event.role}] " if role_prefix else ""
        if event.tokens <= room:
            shown.append(event.shown(event.scope, prefix + event.text))
            room -= event.tokens
            continue
        excerpt = cut_to_bytes(event.text, room * 3)
        if excerpt:
            shown.append({**event.shown(event.scope, prefix + excerpt), "_partial": True})
        break
    return shown, len(chosen) - len(shown)


def _context_line(shown: Json) -> str:
    observed = shown["context"]["observed_at"] or shown["context"]["recorded_at"]
    stamp = observed[:19].replace("T", " ")
    text = " ".join(shown["content"]["text"].split())
    return f"[{stamp} UTC] [{shown['content']['role']}] {text}"
