"""Events as they are read back, and the items that can be told from them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tinymemory.engines.cortex.answers import fields, members, text
from tinymemory.engines.cortex.envelope import Envelope, parse_envelope
from tinymemory.engines.cortex.labels import joined_envelope
from tinymemory.items import Conversation, Document, DocumentBody, Turn
from tinymemory.meta import ItemKind, MemoryMeta
from tinymemory.query import Hit


@dataclass(frozen=True)
class RawEvent:
    """An event of the log, ours or not."""

    id: str
    text: str
    labels: tuple[str, ...]
    is_partial: bool = False
    """Whether the server cut its text."""

    @cached_property
    def envelope(self) -> Envelope | None:
        """What the event says of its item, its text included; None when it is not one of ours."""
        joined = joined_envelope(self.labels)
        if joined is not None and (found := parse_envelope(joined, version=3)) is not None:
            return found.model_copy(update={"text": self.text})
        found = parse_envelope(self.text, version=2)
        if found is None and self.text.startswith("["):
            # Old servers render the text of a recall for a reader: `[user] {…}`.
            found = parse_envelope(self.text.partition("] ")[2], version=2)
        return found


def raw_event(answer: Any) -> RawEvent | None:
    """One event of a listing or a pack; None when it lacks an id or a text."""
    event = fields(answer)
    id_, content = text(event.get("id")), text(fields(event.get("content")).get("text"))
    if id_ is None or content is None:
        return None
    labels = members(fields(event.get("context")).get("labels"))
    return RawEvent(
        id=id_,
        text=content,
        labels=tuple(label for label in labels if isinstance(label, str)),
        is_partial=event.get("_partial") is True,
    )


def whole_hit(envelopes: Sequence[Envelope]) -> Hit | None:
    """The item that its envelopes make together; None for a document of which a piece is missing."""
    first = min(envelopes, key=lambda envelope: envelope.part or 0)
    match first.kind:
        case ItemKind.LEARNING:
            return event_hit(first)
        case ItemKind.CONVERSATION:
            return _conversation_hit(envelopes)
        case ItemKind.DOCUMENT:
            unsplit = next((envelope for envelope in envelopes if envelope.chunk is None), None)
            if unsplit is not None:
                return event_hit(unsplit)
            body = _joined_pieces(envelopes)
            return None if body is None else _document_hit(first, body)


def event_hit(envelope: Envelope) -> Hit:
    """The item an event is all of, or the piece of a document that it is."""
    match envelope.kind:
        case ItemKind.LEARNING:
            return _learning_hit(envelope)
        case ItemKind.CONVERSATION:
            return _conversation_hit([envelope])
        case ItemKind.DOCUMENT if envelope.chunk is None:
            return _document_hit(envelope, envelope.text)
        case ItemKind.DOCUMENT:
            return _hit(envelope, envelope.text, meta_of_piece(envelope))


def meta_of_piece(envelope: Envelope) -> MemoryMeta:
    """The item's metadata, for a piece of a document with its page and section as tags."""
    chunk = envelope.chunk
    if chunk is None:
        return envelope.meta
    tags = [chunk.page_label, None if chunk.section is None else f"section:{chunk.section}"]
    extra = tuple(tag for tag in tags if tag is not None)
    return envelope.meta.model_copy(update={"tags": (*envelope.meta.tags, *extra)})


def by_item(envelopes: Iterable[Envelope]) -> Mapping[str, list[Envelope]]:
    """The envelopes of each item, in the order given."""
    items: dict[str, list[Envelope]] = {}
    for envelope in envelopes:
        items.setdefault(envelope.id, []).append(envelope)
    return items


def _joined_pieces(envelopes: Sequence[Envelope]) -> str | None:
    chunks = [(chunk, envelope.text) for envelope in reversed(envelopes) if (chunk := envelope.chunk)]
    count = chunks[0][0].count
    pieces = {chunk.index: text for chunk, text in chunks}
    # Not by listing what should be there: the count is whatever the log says.
    if any(chunk.count != count for chunk, _ in chunks) or len(pieces) != count or max(pieces) >= count:
        return None
    return "".join(pieces[index] for index in range(count))


def _learning_hit(envelope: Envelope) -> Hit:
    return _hit(envelope, envelope.text, envelope.meta, envelope.confidence or 0.0)


def _conversation_hit(envelopes: Sequence[Envelope]) -> Hit:
    # Backwards, so that of two events of one turn the first read stays.
    by_index = {part.index: (part, envelope) for envelope in reversed(envelopes) if (part := envelope.turn)}
    parts = [by_index[index] for index in sorted(by_index)]
    turns = tuple(
        Turn(role=part.role, text=envelope.text, at=part.at, tool_calls=part.tool_calls)
        for part, envelope in parts
    )
    first = parts[0][1]
    return _hit(first, Conversation(turns=turns).render_text(), first.meta)


def _document_hit(envelope: Envelope, body: str) -> Hit:
    document = Document(title=envelope.title, body=DocumentBody(text=body), mime=envelope.mime)
    return _hit(envelope, document.render_text(), envelope.meta)


def _hit(envelope: Envelope, text: str, meta: MemoryMeta, confidence: float | None = None) -> Hit:
    return Hit(id=envelope.id, kind=envelope.kind, text=text, meta=meta, confidence=confidence)
