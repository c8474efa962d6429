"""What every value at a border has in common: frozen, closed, and spare on the wire."""

from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    ValidationError,
    model_serializer,
)
from pydantic_core import PydanticSerializationError

from tinymemory.errors import InvalidRequestError

VALUE = ConfigDict(
    frozen=True,
    extra="forbid",
    use_attribute_docstrings=True,
    validate_by_name=True,
    validate_by_alias=True,
    serialize_by_alias=True,
)
T = TypeVar("T")


class Value(BaseModel):
    """Base of every model at a border.

    Its JSON leaves out what is unset, and of `omitted_when_empty` what holds its default.
    """

    model_config = VALUE
    omitted_when_empty: ClassVar[frozenset[str]] = frozenset()

    @model_serializer(mode="wrap")
    def _without_unset(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {
            key: value
            for key, value in serialize(self).items()
            if value is not None and not (key in self.omitted_when_empty and self._is_default(key))
        }

    def ensure_encodable(self) -> None:
        """Raise `InvalidRequestError` when a text holds half a surrogate pair, which no wire can carry."""
        try:
            self.model_dump_json()
        except PydanticSerializationError as error:
            raise InvalidRequestError("a text holds a lone surrogate, which is not Unicode") from error

    def _is_default(self, name: str) -> bool:
        return getattr(self, name) == _default(type(self), name)


@cache
def _default(kind: type[Value], name: str) -> Any:
    # Kept, because every id and every stored turn asks for it several times.
    return kind.model_fields[name].get_default(call_default_factory=True)


class Positional(Value):
    """A value whose first fields may be given without their names; each class declares its signature.

    The signature is for type checkers: at run time data from outside comes through here too, and a
    missing field has to be a validation error and not a `TypeError`.
    """

    in_order: ClassVar[tuple[str, ...]]

    if not TYPE_CHECKING:

        def __init__(self, /, *given: Any, **named: Any) -> None:
            if len(given) > len(self.in_order):
                raise TypeError(f"{type(self).__name__} takes {len(self.in_order)} values, not {len(given)}")
            ordered = dict(zip(self.in_order, given, strict=False))
            if twice := ordered.keys() & named.keys():
                raise TypeError(f"{type(self).__name__} got {min(twice)} twice")
            super().__init__(**ordered, **named)


def parse(kind: type[T] | TypeAdapter[T], data: Any, *, what: str) -> T:
    """Build a value from Python data or, given `str` or `bytes`, from JSON.

    Raises:
        InvalidRequestError: It does not fit; the message names the field and not its content.
    """
    adapter = kind if isinstance(kind, TypeAdapter) else TypeAdapter(kind)
    try:
        return adapter.validate_json(data) if isinstance(data, str | bytes) else adapter.validate_python(data)
    except ValidationError as error:
        raise InvalidRequestError(f"{what}: {explain(error)}") from None


def explain(error: ValidationError) -> str:
    """The first fault of a validation, as `field: what is wrong`, without the input."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    # Where a dict or an instance will do, a faulty dict is no instance either: that is not the fault.
    first = next((fault for fault in faults if fault["type"] != "is_instance_of"), faults[0])
    # Pydantic puts the tags of unions and its own function names between the field names.
    path = ".".join(str(part) for part in first["loc"] if "[" not in str(part))
    fault = first["msg"][:1].lower() + first["msg"][1:]
    return f"`{path}`: {fault}" if path else fault


def instant_text(at: datetime) -> str:
    """RFC 3339 in UTC, `2026-09-15T09:01:00Z`; 3 or 6 fractional digits when they are not all zero."""
    at = at.astimezone(UTC)
    spec = "seconds" if not at.microsecond else "microseconds" if at.microsecond % 1000 else "milliseconds"
    return at.replace(tzinfo=None).isoformat(timespec=spec) + "Z"


def in_utc(at: datetime) -> datetime:
    """The same instant in UTC.

    Raises:
        InvalidRequestError: It has no time zone.
    """
    if at.tzinfo is None or at.utcoffset() is None:
        raise InvalidRequestError(
            "the datetime has no time zone: pass an aware one, such as datetime.now(UTC)"
        )
    try:
        return at.astimezone(UTC)
    except OverflowError:
        raise InvalidRequestError("the datetime lies before year 1 or after year 9999 in UTC") from None


def _datetime_or_text(value: object) -> object:
    # Pydantic would also read a number as seconds since 1970: no instant of ours is written so.
    if isinstance(value, datetime) or (isinstance(value, str) and value[4:5] == "-"):
        return value
    raise InvalidRequestError("an instant is an aware datetime or its RFC 3339 text")


Instant = Annotated[
    datetime,
    BeforeValidator(_datetime_or_text),
    AfterValidator(in_utc),
    PlainSerializer(instant_text, return_type=str, when_used="json"),
]
"""An aware instant, kept in UTC with microseconds; further digits are cut when read."""
