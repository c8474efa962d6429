"""What a recall is asked for, and the pack of events and beliefs it answers."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tinymemory.engines.cortex.answers import fields, integer, members, text
from tinymemory.engines.cortex.sizes import EVENT_CAP
from tinymemory.engines.cortex.stored import RawEvent, raw_event
from tinymemory.query import TimeHint

logger = logging.getLogger(__name__)

MAX_PACK_EVENTS = 1000
MAX_PACK_TOKENS = 8_388_608
EVENTS_PER_HIT = 3
"""An item may have several events among the best, and a filter may drop some."""

_DERIVED = ("facts", "beliefs", "episodes", "understanding")
_UNRANKED = "parent_pack_unranked_sample"


@dataclass(frozen=True, slots=True)
class Budget:
    """Which layers a recall reads, how many of each, and how many tokens they may take."""

    include: tuple[str, ...]
    limits: Mapping[str, int] | None = None
    """None leaves the budgets to the server."""
    items: int = 0

    def json(self) -> dict[str, Any]:
        """The request's fields."""
        if self.limits is None:
            return {"include": list(self.include)}
        # By default the server allows 4000 tokens, and cuts a long event to an excerpt.
        tokens = min(max(self.items, 1) * EVENT_CAP, MAX_PACK_TOKENS)
        budgets = {"max_tokens": tokens, "per_layer_limits": dict(self.limits)}
        return {"include": list(self.include), "budgets": budgets}


PROBE = Budget(("events",))
"""Whether an event can be found by ranking."""


def fetch_budget(end: int, beliefs: int = 0) -> Budget:
    """For the first `end` hits of a ranking, and some beliefs beside them."""
    events = min((end + 1) * EVENTS_PER_HIT, MAX_PACK_EVENTS)
    if not beliefs:
        return Budget(("events",), {"events": events}, events)
    return Budget(("events", "beliefs"), {"events": events, "beliefs": beliefs}, events)


def answer_budget(limit: int) -> Budget:
    """For an answer with so many citations: events, and what was derived from them."""
    share, rest = divmod(limit, len(_DERIVED))
    derived = {layer: share + (index < rest) for index, layer in enumerate(_DERIVED)}
    return Budget(("events", *_DERIVED), {"events": 2 * limit, **derived}, 3 * limit)


def belief_budget(limit: int) -> Budget:
    """For beliefs alone."""
    others = dict.fromkeys(("events", "facts", "episodes", "understanding"), 0)
    return Budget(("beliefs",), {**others, "beliefs": limit}, limit)


def temporal_json(hint: TimeHint) -> dict[str, Any]:
    """A time hint as a recall carries it."""
    days = {"from": hint.from_.isoformat(), "to": hint.to.isoformat()}
    return {"refers_during": days} | ({} if hint.zone is None else {"timezone": hint.zone})


@dataclass(frozen=True, slots=True)
class Pack:
    """What one recall found in one scope, best first."""

    id: str | None
    events: Sequence[RawEvent]
    beliefs: Sequence[Any]


def read_pack(answer: Any, masked: Callable[[str], str]) -> Pack:
    """A recall's answer; what it says about itself goes to the log, without a secret."""
    pack = fields(answer)
    layers = fields(pack.get("layers"))
    events = [event for raw in members(layers.get("events")) if (event := raw_event(raw)) is not None]
    _log_remarks(pack, events, masked)
    return Pack(text(pack.get("pack_id")), events, members(layers.get("beliefs")))


def _log_remarks(pack: Mapping[str, Any], events: Sequence[RawEvent], masked: Callable[[str], str]) -> None:
    for warning in members(pack.get("warnings")):
        if isinstance(warning, str):
            is_grave = warning == _UNRANKED or warning.startswith(f"{_UNRANKED}:")
            logger.log(
                logging.WARNING if is_grave else logging.DEBUG,
                "pack warning: %s",
                _on_one_line(masked(warning)),
            )
    evictions = integer(fields(pack.get("diagnostics")).get("knapsack_evictions")) or 0
    if evictions > 0:
        logger.warning("pack left out %d events for its token budget", evictions)
    if evicted := _evicted_contributors(pack):
        logger.warning("pack dropped %d contributors from its layers", evicted)
    if partial := sum(event.is_partial for event in events):
        logger.warning("pack cut the text of %d events", partial)


def _evicted_contributors(pack: Mapping[str, Any]) -> int:
    trail = members(fields(pack.get("provenance")).get("trail"))
    contributors = [entry for step in trail for entry in members(fields(step).get("context_contributors"))]
    return sum(fields(entry).get("evicted_from_layers") is True for entry in contributors)


def _on_one_line(warning: str) -> str:
    # A server's text must not look like a log line of its own.
    return warning[:300].encode("unicode_escape").decode("ascii")
