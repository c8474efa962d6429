"""The cursors of listings and rankings: opaque to a caller, and told apart from one another.

A letter, then the lowercase hex of compact JSON.
"""

import re
from dataclasses import dataclass
from typing import Any

from tinymemory.engines.cortex.answers import integer
from tinymemory.engines.cortex.body import parse_json
from tinymemory.engines.cortex.compact import compact
from tinymemory.errors import InvalidRequestError

_LIST = "l"
_FETCH = "f"
_HEX = re.compile(r"(?:[0-9a-f]{2})*")


@dataclass(frozen=True, slots=True)
class ListCursor:
    """Where a listing goes on."""

    scope: str | None = None
    """The path of the scope it stopped in; None is the first."""
    engine: str | None = None
    """The server's own cursor of the page it stopped in; None is the first."""
    offset: int = 0
    """How many events of that page are consumed."""
    last: str | None = None
    """The id of the last one consumed, whose twin may come next."""

    def __str__(self) -> str:
        named = {"scope": self.scope, "engine": self.engine, "offset": self.offset, "last": self.last}
        return _written(_LIST, {name: value for name, value in named.items() if value is not None})

    @classmethod
    def parse(cls, text: str) -> "ListCursor":
        """Build from a page's `next_cursor`.

        Raises:
            InvalidRequestError: It is none that a listing of this engine gave.
        """
        found = _read(_LIST, text)
        scope, engine, last = (_optional_text(found, name) for name in ("scope", "engine", "last"))
        return cls(scope, engine, _offset(found), last)


def fetch_cursor(offset: int) -> str:
    """Where the next page of a ranking starts."""
    return _written(_FETCH, {"offset": offset})


def parse_fetch_cursor(text: str) -> int:
    """The offset of a page's `next_cursor`.

    Raises:
        InvalidRequestError: It is none that a ranking of this engine gave.
    """
    return _offset(_read(_FETCH, text))


def _written(letter: str, value: dict[str, Any]) -> str:
    return letter + compact(value).encode().hex()


def _read(letter: str, text: str) -> dict[str, Any]:
    body = text.removeprefix(letter)
    if body == text or not _HEX.fullmatch(body):
        raise _invalid()
    try:
        value = parse_json(bytes.fromhex(body))
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise _invalid()
    return value  # pyright: ignore[reportUnknownVariableType]  # members are checked one by one


def _offset(found: dict[str, Any]) -> int:
    offset = integer(found.get("offset"))
    if offset is None or offset < 0:
        raise _invalid()
    return offset


def _optional_text(found: dict[str, Any], name: str) -> str | None:
    value = found.get(name)
    if value is not None and not isinstance(value, str):
        raise _invalid()
    return value


def _invalid() -> InvalidRequestError:
    return InvalidRequestError("the `cursor` is none that this operation gave")
