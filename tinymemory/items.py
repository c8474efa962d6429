"""What memory stores: documents, conversations and learnings, and the identity of each.

Two libraries share one store, so an item's fingerprint is fixed to the byte: the order of the
fields, the spelling of numbers and instants, what is left out.
"""

import hashlib
import json
import math
import struct
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from tinymemory.errors import InvalidRequestError
from tinymemory.meta import ItemKind, MemoryMeta, ToolCallRef
from tinymemory.model import Instant, Value
from tinymemory.text import is_blank


class Role(StrEnum):
    """Who speaks in a turn."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"
    TOOL = "tool"


class LearningKind(StrEnum):
    """What sort of thing was learnt."""

    PREFERENCE = "preference"
    FACT = "fact"
    PROCEDURE = "procedure"
    CORRECTION = "correction"
    OTHER = "other"


def float32_text(value: float) -> str:
    """The shortest decimal that reads back as the same float32: `0.8`, `1.0`, `0.000001`, `1.5e-7`."""
    value = _as_float32(value)
    if not math.isfinite(value):
        return str(value)
    shortest = next(
        text for digits in range(1, 10) if _as_float32(float(text := f"{value:.{digits}g}")) == value
    )
    number = Decimal(shortest)
    if number and number.adjusted() < -6:
        sign, digits, exponent = number.normalize().as_tuple()
        mantissa = "".join(map(str, digits))
        point = f".{mantissa[1:]}" if mantissa[1:] else ""
        return f"{'-' * sign}{mantissa[0]}{point}e{int(exponent) + len(mantissa) - 1}"
    plain = format(number, "f")
    return plain if "." in plain else f"{plain}.0"


def _as_float32(value: float) -> float:
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def _shortest_float32(value: float) -> float:
    # Kept as the double nearest to the shortest decimal, so that 0.8 is 0.8 in Python and in JSON.
    return float(float32_text(value))


Float32 = Annotated[float, AfterValidator(_shortest_float32)]
"""A number with the precision of a float32, shown as its shortest decimal."""


_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def compact_json(value: Any) -> str:
    """JSON without spaces, keys in order, non-ASCII as it is, floats as float32 decimals."""
    # Most have no number to respell, and each id is one of these: the encoder is five times as fast.
    return _respelled(value) if _has_float(value) else _COMPACT.encode(value)


def _has_float(value: Any) -> bool:
    match value:
        case dict():
            return any(map(_has_float, value.values()))  # pyright: ignore[reportUnknownArgumentType]
        case list() | tuple():
            return any(map(_has_float, value))  # pyright: ignore[reportUnknownArgumentType]
        case _:
            return isinstance(value, float)


def _respelled(value: Any) -> str:
    match value:
        case dict():
            members = (f"{json.dumps(key)}:{_respelled(item)}" for key, item in value.items())  # pyright: ignore[reportUnknownVariableType]
            return "{" + ",".join(members) + "}"
        case list() | tuple():
            return "[" + ",".join(map(_respelled, value)) + "]"  # pyright: ignore[reportUnknownArgumentType]
        case float():
            return float32_text(value)
        case _:
            return _COMPACT.encode(value)


class DocumentBody(Value):
    """A document's content: its text, or where it lies; an unresolved `uri` cannot be stored."""

    text: str | None = None
    uri: str | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.text is None) == (self.uri is None):
            raise InvalidRequestError("a document's `body` has either a `text` or a `uri`")
        return self


def _body(body: object) -> object:
    return {"text": body} if isinstance(body, str) else body


class Turn(Value):
    """One utterance of a conversation."""

    omitted_when_empty: ClassVar = frozenset({"tool_calls"})

    role: Role
    text: str
    at: Instant | None = None
    tool_calls: tuple[ToolCallRef, ...] = ()


class _Item(Value):
    def fingerprint(self) -> str:
        """The item's id: 40 hex digits over everything but when and of whom it was observed."""
        identity = self.model_dump(mode="json", exclude={"meta": {"observed_at", "observed_actor"}})
        return hashlib.sha256(compact_json(identity).encode()).hexdigest()[:40]


class Document(_Item):
    """A text with a title: a page, a file, a note."""

    type: Literal["document"] = Field(default="document", kw_only=True)
    title: str | None = None
    body: Annotated[DocumentBody, BeforeValidator(_body)]  # pyright: ignore[reportGeneralTypeIssues]  # the order of the JSON
    """A plain string is taken as its text."""
    mime: str | None = None
    meta: MemoryMeta = MemoryMeta()

    @property
    def kind(self) -> ItemKind:
        """`ItemKind.DOCUMENT`."""
        return ItemKind.DOCUMENT

    @property
    def confidence(self) -> None:
        """None: only learnings have one."""
        return None

    def render_text(self) -> str:
        """`# {title}`, a blank line and the body; the body alone when there is no title."""
        body = self.body.text if self.body.text is not None else self.body.uri or ""
        return body if self.title is None or is_blank(self.title) else f"# {self.title}\n\n{body}"

    def validate_storable(self) -> None:
        """Raise `InvalidRequestError` when the body is blank or still a URI."""
        self.ensure_encodable()
        if self.body.text is None:
            raise InvalidRequestError("the document's `body` is an unresolved uri: resolve it to text first")
        if is_blank(self.body.text):
            raise InvalidRequestError("the document's `body` is blank")


class Conversation(_Item):
    """Turns of one thread, in order."""

    type: Literal["conversation"] = Field(default="conversation", kw_only=True)
    turns: tuple[Turn, ...]
    meta: MemoryMeta = MemoryMeta()

    @property
    def kind(self) -> ItemKind:
        """`ItemKind.CONVERSATION`."""
        return ItemKind.CONVERSATION

    @property
    def confidence(self) -> None:
        """None: only learnings have one."""
        return None

    def render_text(self) -> str:
        """One `role: text` line a turn, its tool calls behind it as ` [tools: name (id), name]`."""
        return "\n".join(map(_turn_line, self.turns))

    def validate_storable(self) -> None:
        """Raise `InvalidRequestError` when there is no turn, or a blank one."""
        self.ensure_encodable()
        if not self.turns:
            raise InvalidRequestError("the conversation has no `turns`")
        for index, turn in enumerate(self.turns):
            if is_blank(turn.text):
                raise InvalidRequestError(f"the conversation's `turns[{index}].text` is blank")


class Learning(_Item):
    """One statement worth keeping.  JSON calls its `learning_kind` `kind`; the constructor takes either."""

    type: Literal["learning"] = Field(default="learning", kw_only=True)
    text: str
    learning_kind: LearningKind = Field(default=LearningKind.FACT, alias="kind")
    confidence: Float32 = 0.8
    """0 to 1."""
    evidence: str | None = None
    meta: MemoryMeta = MemoryMeta()

    @property
    def kind(self) -> ItemKind:
        """`ItemKind.LEARNING`."""
        return ItemKind.LEARNING

    def render_text(self) -> str:
        """The statement."""
        return self.text

    def validate_storable(self) -> None:
        """Raise `InvalidRequestError` when the text is blank or the confidence outside 0 to 1."""
        self.ensure_encodable()
        if is_blank(self.text):
            raise InvalidRequestError("the learning's `text` is blank")
        if not 0 <= self.confidence <= 1:
            raise InvalidRequestError(f"the learning's `confidence` is {self.confidence}, not within 0 to 1")


StoreItem = Annotated[Document | Conversation | Learning, Field(discriminator="type")]
"""Anything memory stores, told apart in JSON by `type`."""


class StoreReceipt(Value):
    """What a store answers: the item's id, and whether it was there before."""

    id: str
    replayed: bool


def _turn_line(turn: Turn) -> str:
    calls = ", ".join(
        call.name if call.id is None else f"{call.name} ({call.id})" for call in turn.tool_calls
    )
    return f"{turn.role}: {turn.text}{f' [tools: {calls}]' if calls else ''}"
