"""Strict reading of a model's arguments, by the same schema that the model was shown.

Every refusal names the tool and the field and says what would be right, so that it can be shown to
the model as it is; the engine has not been called then.
"""

from collections.abc import Callable
from datetime import date, datetime
from typing import Any, cast

from pydantic import TypeAdapter

from tinymemory.errors import InvalidRequestError
from tinymemory.model import Instant
from tinymemory.text import is_blank
from tinymemory.tools.spec import MAX_LIST, MAX_WORD, Schema

HOST_FIXED = ("namespace", "reach")
"""Keys no argument may have at any depth: whose memory is touched is the host's to say."""

_INSTANT: TypeAdapter[datetime] = TypeAdapter(Instant)
_SHOWN = 40
_NOUNS = {
    "kinds": "an item kind",
    "sources": "a source kind",
    "mode": "a fetch mode of this engine",
    "facet": "a facet",
    "learning_kind": "a learning kind",
    "role": "a role",
}


def read_arguments(tool: str, schema: Schema, arguments: object) -> dict[str, Any]:
    """The arguments with defaults filled in and nulls left out; instants and days parsed.

    Raises:
        InvalidRequestError: They are no object, name what the host fixes, an unknown key, or a
            value that is missing, mistyped or out of range.
    """
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        raise InvalidRequestError(f"{tool}: the arguments are a JSON object, not {_type_name(arguments)}")
    found = cast("dict[object, Any]", arguments)
    _ensure_nothing_host_fixed(tool, found)
    return _Reader(tool).members(schema, found, "")


def _ensure_nothing_host_fixed(tool: str, arguments: dict[object, Any]) -> None:
    # A stack and not recursion: the depth is the model's to choose.
    waiting: list[Any] = [arguments]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            members = cast("dict[object, Any]", value)
            fixed = next((key for key in HOST_FIXED if key in members), None)
            if fixed is not None:
                raise InvalidRequestError(f"{tool}: `{fixed}` is no argument: the host fixes it")
            waiting += members.values()
        elif isinstance(value, list | tuple):
            waiting += cast("list[Any]", value)


class _Reader:
    """Reads values by their schema; a path such as `filter.kinds` says where."""

    def __init__(self, tool: str) -> None:
        self.tool = tool

    def refuse(self, path: str, fault: str) -> InvalidRequestError:
        return InvalidRequestError(f"{self.tool}: `{path}` {fault}")

    def value(self, schema: Schema, value: Any, path: str) -> Any:
        match schema["type"]:
            case "object":
                if not isinstance(value, dict):
                    raise self.mistyped("an object", value, path)
                return self.members(schema, cast("dict[object, Any]", value), path)
            case "array":
                return self.array(schema, value, path)
            case "integer":
                if not isinstance(value, int) or isinstance(value, bool):
                    raise self.mistyped("a whole number", value, path)
                return self.within(schema, value, path)
            case "number":
                if not isinstance(value, int | float) or isinstance(value, bool):
                    raise self.mistyped("a number", value, path)
                return self.within(schema, value, path)
            case _:
                if not isinstance(value, str):
                    raise self.mistyped("a string", value, path)
                return self.text(schema, value, path)

    def members(self, schema: Schema, given: dict[object, Any], path: str) -> dict[str, Any]:
        properties: dict[str, Schema] = schema["properties"]
        unknown = next((key for key in given if key not in properties), None)
        if unknown is not None:
            known = ", ".join(properties)
            raise self.refuse(_joined(path, _shown(unknown)), f"is not known here; there are {known}")
        read: dict[str, Any] = {}
        for name, member in properties.items():
            value = given.get(name)
            if value is not None:
                read[name] = self.value(member, value, _joined(path, name))
            elif name in schema.get("required", ()):
                raise self.refuse(_joined(path, name), "is required")
            elif "default" in member:
                read[name] = member["default"]
        return read

    def array(self, schema: Schema, value: Any, path: str) -> list[Any]:
        if not isinstance(value, list | tuple):
            raise self.mistyped("a list", value, path)
        values = cast("list[Any]", value)
        if len(values) < schema.get("minItems", 0):
            raise self.refuse(path, "is empty; name at least one")
        if schema["items"]["type"] == "object":
            self.ensure_count(schema, len(values), path)
            read = [
                self.value(schema["items"], item, f"{path}[{index}]") for index, item in enumerate(values)
            ]
        else:
            read = list(dict.fromkeys(self.value(schema["items"], item, path) for item in values))
            self.ensure_count(schema, len(read), path)
        return read

    def ensure_count(self, schema: Schema, count: int, path: str) -> None:
        most = schema.get("maxItems", MAX_LIST)
        if count > most:
            raise self.refuse(path, f"has {count} entries; at most {most} fit one call")

    def within(self, schema: Schema, value: float, path: str) -> float:
        least, most = schema["minimum"], schema["maximum"]
        if not least <= value <= most:
            raise self.refuse(path, f"is {_shown(value)}, not within {least} to {most}")
        return value

    def text(self, schema: Schema, value: str, path: str) -> Any:
        if "enum" in schema:
            if value not in schema["enum"]:
                noun = _NOUNS.get(path.rpartition(".")[2], "allowed")
                allowed = ", ".join(schema["enum"])
                raise self.refuse(path, f"`{_shown(value)}` is not {noun} ({allowed})")
            return value
        match schema.get("format"):
            case "date":
                return self.parsed(_day, value, path, "is not a day, written YYYY-MM-DD")
            case "date-time":
                fault = "is not a time with a zone, written such as 2026-09-15T09:00:00Z"
                return self.parsed(_INSTANT.validate_python, value, path, fault)
            case _:
                return self.plain(schema, value, path)

    def plain(self, schema: Schema, value: str, path: str) -> str:
        if is_blank(value):
            raise self.refuse(path, "is blank; say something or leave it out")
        most = schema.get("maxLength", MAX_WORD)
        if len(value) > most:
            raise self.refuse(path, f"has {len(value)} characters; at most {most} fit")
        if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
            raise self.refuse(path, "holds a lone surrogate, which is not Unicode")
        return value

    def parsed(self, parse: Callable[[str], Any], value: str, path: str, fault: str) -> date | datetime:
        try:
            return parse(value)
        except (ValueError, InvalidRequestError):
            raise self.refuse(path, f"`{_shown(value)}` {fault}") from None

    def mistyped(self, wanted: str, value: object, path: str) -> InvalidRequestError:
        return self.refuse(path, f"is {wanted}, not {_type_name(value)}")


def _day(text: str) -> date:
    if len(text) != len("2026-01-31") or text[4] != "-" or text[7] != "-":
        raise ValueError
    return date.fromisoformat(text)


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _shown(value: object) -> str:
    text = str(value) if not isinstance(value, int) or abs(value) < 10**_SHOWN else "a very large number"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _type_name(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a truth value"
        case int():
            return "a whole number"
        case float():
            return "a number with a fraction"
        case str():
            return "a string"
        case list() | tuple():
            return "a list"
        case dict():
            return "an object"
        case _:
            return f"a {type(value).__name__}"
