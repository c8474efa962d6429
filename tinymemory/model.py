"""What every value at a border has in common: frozen, closed, and spare on the wire."""

from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeVar, dataclass_transform

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
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
_NO_INSTANT = "no datetime: an instant is an aware datetime or its RFC 3339 text"


@dataclass_transform(eq_default=False, frozen_default=True, field_specifiers=(Field,))
class _InOrder(type(BaseModel)):
    """Lets the fields of a model be given without their names, in order, as a dataclass does."""

    if not TYPE_CHECKING:
        # Here and not in an `__init__`, which pydantic would call for each value it reads as well.
        def __call__(cls, /, *given: Any, **named: Any) -> Any:
            if not given:
                return super().__call__(**named)
            if len(given) > len(cls.in_order):
                raise TypeError(f"{cls.__name__} takes {len(cls.in_order)} values, not {len(given)}")
            ordered = dict(zip(cls.in_order, given, strict=False))
            aliases = {cls.model_fields[name].alias for name in ordered}
            if twice := (ordered.keys() | aliases) & named.keys():
                raise TypeError(f"{cls.__name__} got {min(twice)} twice")
            return super().__call__(**ordered, **named)


class Value(BaseModel, metaclass=_InOrder):
    """Base of every model at a border.

    Its fields may be given in order, without their names; what tells it from others in JSON (`type`,
    `job`) only by name.  Its JSON leaves out what is unset, and of `omitted_when_empty` what holds its
    default.
    """

    model_config = VALUE
    in_order: ClassVar[tuple[str, ...]] = ()
    """The fields that may be given without their names; all of them, where a class does not say."""
    omitted_when_empty: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Take the order from the fields where the class does not say."""
        super().__pydantic_init_subclass__(**kwargs)
        if "in_order" not in vars(cls):
            cls.in_order = tuple(name for name, field in cls.model_fields.items() if not field.kw_only)

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
        return getattr(self, name) == _default(type(self), name)  # pyright: ignore[reportArgumentType]  # it takes the class for a value of it


@cache
def _default(kind: type[Value], name: str) -> Any:
    # Kept, because every id and every stored turn asks for it several times.
    return kind.model_fields[name].get_default(call_default_factory=True)


class AsModel:
    """The JSON methods of a model, for a dataclass with a schema of its own."""

    __slots__ = ()

    @classmethod
    def model_validate(cls, data: Any) -> Self:
        """Build from Python data: an instance, or the dict that JSON has for one."""
        return _adapter(cls).validate_python(data)

    @classmethod
    def model_validate_json(cls, data: str | bytes) -> Self:
        """Build from JSON."""
        return _adapter(cls).validate_json(data)

    def model_dump(self, *, mode: Literal["json", "python"] = "python") -> dict[str, Any]:
        """The dict that JSON has for it."""
        return _adapter(type(self)).dump_python(self, mode=mode)

    def model_dump_json(self) -> str:
        """Its JSON."""
        return _adapter(type(self)).dump_json(self).decode()


@cache
def _adapter(kind: type[T]) -> TypeAdapter[T]:
    return TypeAdapter(kind)


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


def ensure_is(value: object, kind: type, name: str) -> None:
    """Raise `InvalidRequestError` naming the argument when it is none of the kind: callers may be untyped."""
    if not isinstance(value, kind):
        raise InvalidRequestError(f"`{name}` must be of type {kind.__name__}, not {type(value).__name__}")


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
        InvalidRequestError: It has no time zone, or is no datetime.
    """
    if not isinstance(at, datetime):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        raise InvalidRequestError(_NO_INSTANT)
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
    raise InvalidRequestError(_NO_INSTANT)


Instant = Annotated[
    datetime,
    BeforeValidator(_datetime_or_text),
    AfterValidator(in_utc),
    PlainSerializer(instant_text, return_type=str, when_used="json"),
]
"""An aware instant, kept in UTC with microseconds; further digits are cut when read."""
