"""Reading what came from outside, where a field of the wrong type is a missing one."""

from collections.abc import Mapping
from typing import Any, cast


def fields(value: Any) -> Mapping[str, Any]:
    """An object's members; none of anything else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def members(value: Any) -> list[Any]:
    """A list's items; none of anything else."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def text(value: Any) -> str | None:
    """A string; None for anything else."""
    return value if isinstance(value, str) else None


def integer(value: Any) -> int | None:
    """A whole number; None for anything else, true and false included."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def number(value: Any) -> float | None:
    """A number; None for anything else, true and false included."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:  # an integer of four hundred digits
        return None
