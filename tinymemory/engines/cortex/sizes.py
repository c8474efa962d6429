"""How many bytes a text takes in a request, and how many one event may."""

import json

EVENT_CAP = 786_432
"""The most bytes of an event's v2 JSON: 768 KiB, well under what the server takes."""


def encoded_size(text: str) -> int:
    """Bytes of the text inside a JSON string: what must be escaped counts as its escape."""
    return len(json.dumps(text, ensure_ascii=False).encode()) - 2
