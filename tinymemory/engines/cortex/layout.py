"""An item as the events that go into the log: what each says, and the key that tells a retry."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tinymemory.engine import Item
from tinymemory.engines.cortex.call import encodable
from tinymemory.engines.cortex.chunks import CHUNK_TARGET, Piece, overhead_of, pieces_of
from tinymemory.engines.cortex.compact import sorted_compact
from tinymemory.engines.cortex.digest import hex_digest
from tinymemory.engines.cortex.disclosure import disclosed
from tinymemory.engines.cortex.envelope import ChunkPart, Envelope, TurnPart
from tinymemory.engines.cortex.labels import MAX_LABELS, envelope_labels, lookup_labels, readable_labels
from tinymemory.engines.cortex.scope import Scope
from tinymemory.engines.cortex.sizes import EVENT_CAP, encoded_size
from tinymemory.errors import InvalidRequestError
from tinymemory.items import Conversation, Document, Learning, Role, Turn
from tinymemory.meta import ItemKind
from tinymemory.model import instant_text

_MODALITIES = {
    ItemKind.DOCUMENT: "document",
    ItemKind.CONVERSATION: "conversation",
    ItemKind.LEARNING: "observation",
}


@dataclass(frozen=True, slots=True)
class Event:
    """One event to append."""

    item_id: str
    scope: Scope
    part: int | None
    """The index of the turn or the piece; None when the event is the whole item."""
    text: str
    labels: tuple[str, ...]
    key: str
    """The body's own digest, by which the server tells a retry from a new event."""
    body: bytes
    """The request's JSON, the key included."""


@dataclass(frozen=True, slots=True)
class LaidOut:
    """An item with its events, in the order they are written."""

    id: str
    scope: Scope
    events: tuple[Event, ...]


def lay_out(item: Item, target: int = CHUNK_TARGET) -> LaidOut:
    """The events an item becomes.

    Raises:
        InvalidRequestError: One of them would be larger than a server takes, or holds a text that
            cannot be encoded.
    """
    with encodable():
        item_id = item.fingerprint()
        scope = Scope(item.kind, item.meta.namespace)
        events = tuple(_event(scope, envelope) for envelope in _envelopes(item, item_id, target))
    return LaidOut(item_id, scope, events)


def _envelopes(item: Item, item_id: str, target: int) -> Iterator[Envelope]:
    sent = disclosed(item.meta)
    base = Envelope(
        id=item_id, kind=item.kind, meta=sent.meta, ws=sent.workspace, fp=sent.file_path, fd=sent.folder
    )
    match item:
        case Learning():
            yield base.model_copy(
                update={
                    "text": item.text,
                    "learning_kind": item.learning_kind,
                    "confidence": item.confidence,
                    "evidence": item.evidence,
                }
            )
        case Conversation():
            for index, turn in enumerate(item.turns):
                part = _turn_part(turn, index, len(item.turns))
                yield base.model_copy(update={"text": turn.text, "turn": part})
        case Document():
            document = base.model_copy(update={"title": item.title, "mime": item.mime})
            body = item.body.text or ""
            pieces = pieces_of(body, overhead_of(document, body), target)
            for index, piece in enumerate(pieces):
                part = _chunk_part(piece, index, len(pieces))
                yield document.model_copy(update={"text": piece.text, "chunk": part})


def _turn_part(turn: Turn, index: int, count: int) -> TurnPart:
    return TurnPart(index=index, count=count, role=turn.role, at=turn.at, tool_calls=turn.tool_calls)


def _chunk_part(piece: Piece, index: int, count: int) -> ChunkPart | None:
    if count == 1:
        return None
    return ChunkPart(index=index, count=count, pages=piece.pages, section=piece.section)


def _event(scope: Scope, envelope: Envelope) -> Event:
    json_v3 = envelope.json_v3()
    _ensure_fits(envelope, json_v3)
    text, labels = _text_and_labels(envelope, json_v3)
    body = _body(scope, envelope, text, labels)
    canonical = sorted_compact(body)
    key = "tm3:" + hex_digest(canonical, 56)
    return Event(
        item_id=envelope.id,
        scope=scope,
        part=envelope.part,
        text=text,
        labels=tuple(labels),
        key=key,
        body=f'{canonical[:-1]},"idempotency_key":"{key}"}}'.encode(),
    )


def _text_and_labels(envelope: Envelope, json_v3: str) -> tuple[str, list[str]]:
    lookups = lookup_labels(envelope)
    labels = [*lookups, *readable_labels(envelope), *envelope_labels(json_v3)]
    # The server refuses an empty text and a 65th label; the envelope as the text has neither.
    if not envelope.text or len(labels) > MAX_LABELS:
        return envelope.json_v2(), lookups
    return envelope.text, labels


def _body(scope: Scope, envelope: Envelope, text: str, labels: list[str]) -> dict[str, Any]:
    role = envelope.turn.role if envelope.turn else Role.USER
    observed_at = (envelope.turn and envelope.turn.at) or envelope.meta.observed_at
    context: dict[str, Any] = {"labels": labels}
    if observed_at is not None:
        context["observed_at"] = instant_text(observed_at).removesuffix("Z") + "+00:00"
    body: dict[str, Any] = {
        "scope": scope.path,
        "modality": _MODALITIES[envelope.kind],
        "content": {"kind": "message", "role": role.value, "text": text},
        "context": context,
    }
    if role is Role.TOOL or envelope.meta.derive is False:
        body["directives"] = {"extract": []}
    return body


def _ensure_fits(envelope: Envelope, json_v3: str) -> None:
    # As v2, which has the text inside and is otherwise as long.
    size = len(json_v3.encode()) + encoded_size(envelope.text)
    if size > EVENT_CAP:
        raise InvalidRequestError(
            f"the {envelope.kind} takes {size} bytes as one event, over {EVENT_CAP}: "
            "the server takes at most 1 MiB, and reads need the rest"
        )
