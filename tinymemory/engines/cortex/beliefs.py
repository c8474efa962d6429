"""Beliefs as a server words them, read as learnings."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter, ValidationError

from tinymemory.engines.cortex.answers import fields, number, text
from tinymemory.engines.cortex.merging import distinct, interleaved
from tinymemory.engines.cortex.scope import parse_scope
from tinymemory.errors import InvalidRequestError
from tinymemory.meta import ItemKind, MemoryMeta
from tinymemory.model import Instant
from tinymemory.namespace import Reach
from tinymemory.query import Hit
from tinymemory.text import trimmed

TAG = "belief"

_STANCES = {"supported": "", "contested": " (contested)"}
_INSTANT: TypeAdapter[datetime] = TypeAdapter(Instant)
_DATES = ("valid_from", "updated_at", "created_at")


def belief_hits(beliefs: Iterable[Any], reach: Reach | None) -> list[Hit]:
    """The beliefs of one list that can be shown and that the reach admits, scored by their rank."""
    hits: list[Hit] = []
    for belief in beliefs:
        hit = _hit(belief, rank=len(hits))
        if hit is not None and (reach is None or reach.admits(hit.meta.namespace)):
            hits.append(hit)
    return hits


def merged_beliefs(lists: Iterable[Sequence[Hit]], limit: int) -> list[Hit]:
    """Several scopes' beliefs, rank by rank, each sentence once."""
    return list(distinct(interleaved(lists), lambda hit: hit.text.lower()))[:limit]


def most_confident(lists: Iterable[Sequence[Hit]], limit: int) -> list[Hit]:
    """Several scopes' beliefs by confidence, then the newest first, each sentence once."""
    ordered = sorted(interleaved(lists), key=lambda hit: (-(hit.confidence or 0.0), *_newest_first(hit)))
    return list(distinct(ordered, lambda hit: hit.text.lower()))[:limit]


def _newest_first(hit: Hit) -> tuple[bool, float]:
    at = hit.meta.observed_at
    return (at is None, 0.0 if at is None else -at.timestamp())


def _hit(answer: Any, rank: int) -> Hit | None:
    belief = fields(answer)
    id_, scope = text(belief.get("id")), parse_scope(text(belief.get("scope")) or "")
    sentence = _sentence(belief.get("claim"), belief.get("stance"))
    if id_ is None or scope is None or sentence is None:
        return None
    confidence = number(belief.get("confidence"))
    dates = (_instant(belief.get(name)) for name in _DATES)
    return Hit(
        id=id_,
        kind=ItemKind.LEARNING,
        text=sentence,
        meta=MemoryMeta(
            namespace=scope.namespace,
            tags=(TAG,),
            observed_at=next((date for date in dates if date is not None), None),
        ),
        score=1 / (1 + rank),
        confidence=0.5 if confidence is None else min(max(confidence, 0.0), 1.0),
    )


def _sentence(claim: Any, stance: Any) -> str | None:
    remark = _STANCES.get(stance if isinstance(stance, str) else "supported")
    parts = fields(claim)
    subject, predicate, object_ = (_words(parts.get(name)) for name in ("subject", "predicate", "object"))
    if remark is None or not predicate or not object_:
        return None
    return " ".join(filter(None, (subject, predicate.replace("_", " "), object_))) + remark


def _words(part: Any) -> str:
    """What a part of a claim says; empty when it says nothing that can be shown."""
    found = fields(part)
    for value in (found.get("name"), found.get("value")) if found else (part,):
        match value:
            case bool():
                return str(value).lower()
            case str() if trimmed(value):
                return trimmed(value)
            case int() | float():
                return str(value)
            case _:
                continue
    return ""


def _instant(value: Any) -> datetime | None:
    if not isinstance(value, str):
        return None
    try:
        return _INSTANT.validate_python(value)
    except (ValidationError, InvalidRequestError, OverflowError):
        return None
