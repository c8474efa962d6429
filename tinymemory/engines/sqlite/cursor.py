"""Cursors: where a page ended, sealed so that only what the engine handed out is taken back."""

import re
import zlib

from tinymemory.errors import InvalidRequestError

_LARGEST = 2**63 - 1


def cursor(operation: str, *numbers: int) -> str:
    """The text that stands for these numbers in this operation's requests."""
    plain = "-".join([operation, *(f"{number:x}" for number in numbers)])
    return f"{plain}-{_seal(plain)}"


def numbers_of(operation: str, text: str, count: int) -> tuple[int, ...]:
    """The numbers a cursor stands for.

    Raises:
        InvalidRequestError: The engine has handed out no such cursor for this operation.
    """
    plain, _, seal = text.rpartition("-")
    if re.fullmatch(f"{operation}(-[0-9a-f]{{1,16}}){{{count}}}", plain) and seal == _seal(plain):
        numbers = tuple(int(number, 16) for number in plain.split("-")[1:])
        if max(numbers) <= _LARGEST:
            return numbers
    raise InvalidRequestError(f"`cursor` is none that a {operation} of this engine handed out")


def _seal(plain: str) -> str:
    return f"{zlib.crc32(plain.encode()):08x}"
