"""The envelope: what one event of the log says of the item it belongs to.

Shared with other libraries that read and write the same log, so its JSON is fixed to the byte.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, ValidationError

from tinymemory.engines.cortex.compact import compact
from tinymemory.errors import InvalidRequestError
from tinymemory.items import Float32, LearningKind, Role, compact_json
from tinymemory.meta import ItemKind, MemoryMeta, ToolCallRef
from tinymemory.model import Instant, Value

_FLOAT32_MAX = 3.4028234e38
_Index = Annotated[int, Field(ge=0, strict=True)]
_Confidence = Annotated[Float32, Field(strict=True, ge=-_FLOAT32_MAX, le=_FLOAT32_MAX)]
# Below this Python's own spelling of a number is not ours: `1e-05` for `0.00001`.
_PLAIN = 1e-4


class TurnPart(Value):
    """Which turn of a conversation an event is, from 0, and of how many."""

    omitted_when_empty: ClassVar = frozenset({"tool_calls"})

    index: _Index
    count: _Index
    role: Role
    at: Instant | None = None
    tool_calls: tuple[ToolCallRef, ...] = ()


class ChunkPart(Value):
    """Which piece of a document an event is, from 0, and of how many."""

    index: _Index
    count: _Index
    pages: tuple[_Index, _Index] | None = None
    """First and last page, from 1."""
    section: str | None = None

    @property
    def page_label(self) -> str | None:
        """`page:3` or `page:3-5`; None when the document has no pages."""
        if self.pages is None:
            return None
        first, last = self.pages
        return f"page:{first}" if first == last else f"page:{first}-{last}"


class Envelope(Value):
    """One event's part of an item.  The order of the fields is that of the JSON."""

    v: Literal[2, 3] = Field(default=3, kw_only=True)
    """3 when `text` travels beside the envelope, 2 when the envelope is all there is."""
    id: str
    kind: ItemKind
    text: str = Field(default="", kw_only=True)
    meta: MemoryMeta
    ws: str | None = None
    """Digest of a workspace that was not sent."""
    fp: tuple[str, ...] | None = None
    """Digests of the file path and of each folder above it."""
    fd: tuple[str, ...] | None = None
    """The same of the folder."""
    title: str | None = None
    mime: str | None = None
    learning_kind: LearningKind | None = None
    confidence: _Confidence | None = None
    evidence: str | None = None
    turn: TurnPart | None = None
    chunk: ChunkPart | None = None

    def json_v3(self) -> str:
        """Compact JSON without the event's text, which travels as the event's own."""
        return self._json(3, "")

    def json_v2(self, text: str | None = None) -> str:
        """Compact JSON with the event's text, or another one, inside."""
        return self._json(2, self.text if text is None else text)

    @property
    def starts_item(self) -> bool:
        """Whether this is the first turn, the first piece, or all of the item."""
        return self.part in (None, 0)

    @property
    def part(self) -> int | None:
        """The index of the turn or the piece; None when the event is the whole item."""
        match self.kind:
            case ItemKind.CONVERSATION:
                return self.turn and self.turn.index
            case ItemKind.DOCUMENT:
                return self.chunk and self.chunk.index
            case ItemKind.LEARNING:
                return None

    @property
    def is_whole(self) -> bool:
        """Whether the item is all in this event."""
        match self.kind:
            case ItemKind.CONVERSATION:
                return self.turn is not None and self.turn.count == 1
            case ItemKind.DOCUMENT:
                return self.chunk is None
            case ItemKind.LEARNING:
                return True

    def _json(self, version: int, text: str) -> str:
        members = self.model_dump(mode="json") | {"v": version, "text": text}
        if not self.confidence or self.confidence >= _PLAIN:
            return compact(members)
        return compact_json(members)


def parse_envelope(text: str, *, version: int) -> Envelope | None:
    """The envelope a JSON text is; None when it is not one, or of another version.

    Unknown members are skipped; a member of the wrong type, or a value unknown here, makes it
    somebody else's.
    """
    try:
        envelope = Envelope.model_validate_json(text, extra="ignore")
    except (ValidationError, InvalidRequestError, UnicodeEncodeError, OverflowError):
        return None
    is_complete = {"v", "text"} <= envelope.model_fields_set and (
        envelope.kind is not ItemKind.CONVERSATION or envelope.turn is not None
    )
    return envelope if is_complete and envelope.v == version else None
