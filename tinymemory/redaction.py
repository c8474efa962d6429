"""Ids that hold a phone number: a store may keep their digest in their place.

A channel is often named by the number behind it.  Such an id never leaves the machine; what is
stored is `tm-redacted:` and a digest, and a filter by the id finds both forms.
"""

import hashlib
import re
from functools import lru_cache

_REDACTED = "tm-redacted:"
_UUID = re.compile(
    rb"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}",
)
_DIGITS_OF_A_NUMBER = 7
_PUNCTUATION = frozenset(b" -.()+")


def redacted(value: str) -> str:
    """The value, or its digest when it holds a phone number; doing it twice changes nothing."""
    if not holds_phone_number(value):
        return value
    return _REDACTED + hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def same_id(stored: str | None, wanted: str) -> bool:
    """Whether a stored id is the wanted one, as it is or redacted."""
    return stored is not None and (stored == wanted or stored == redacted(wanted))


@lru_cache(maxsize=4096)  # a thread's id is looked at on every turn
def holds_phone_number(value: str) -> bool:
    """Whether at least seven digits stand together, not glued to a letter and no part of a UUID."""
    if value.startswith(_REDACTED):
        return False
    digits, glued, previous = 0, False, 0
    for byte in _UUID.sub(b"_", value.encode("utf-8", "surrogatepass")):
        if _is_digit(byte):
            glued = _is_letter(previous) if digits == 0 else glued
            digits += 1
        elif byte not in _PUNCTUATION:
            runs_into_a_letter = _is_letter(byte) and _is_digit(previous)
            if digits >= _DIGITS_OF_A_NUMBER and not glued and not runs_into_a_letter:
                return True
            digits = 0
        previous = byte
    return digits >= _DIGITS_OF_A_NUMBER and not glued


def _is_digit(byte: int) -> bool:
    return 0x30 <= byte <= 0x39


def _is_letter(byte: int) -> bool:
    return 0x41 <= byte <= 0x5A or 0x61 <= byte <= 0x7A
