"""JSON without spaces and with non-ASCII as it is, the way every body, envelope and key has it."""

import json
from collections.abc import Mapping
from typing import Any

# Made once: `json.dumps` makes an encoder for each call that asks for anything but its defaults.
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_SORTING = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def compact(value: Mapping[str, Any]) -> str:
    """Keys in their order.  Numbers are Python's: a float below 0.0001 is spelled otherwise elsewhere."""
    return _ENCODER.encode(value)


def sorted_compact(value: Mapping[str, Any]) -> str:
    """Keys of every object sorted."""
    return _SORTING.encode(value)
