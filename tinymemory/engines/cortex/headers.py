"""What may stand in a request header, and the headers a host adds to every request."""

import re
from collections.abc import Mapping

from tinymemory.errors import ConfigError
from tinymemory.text import trimmed

RESERVED = frozenset(
    {
        "authorization",
        "proxy-authorization",
        "cookie",
        "host",
        "content-length",
        "content-type",
        "content-encoding",
        "transfer-encoding",
        "connection",
        "keep-alive",
        "te",
        "trailer",
        "upgrade",
        "expect",
        "accept-encoding",
        "idempotency-key",
        "x-cortex-actor",
    }
)
"""Headers the engine or HTTP itself decides on, in lower case."""

_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_UNSENDABLE = re.compile(r"[\x00-\x1f\x7f-\x9f]|[^\x00-\xff]")


def is_header_value(value: str) -> bool:
    """Whether a value can be sent: Latin-1 without any control character."""
    return _UNSENDABLE.search(value) is None


def default_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers to add to every request: names in lower case, both sides trimmed.

    Raises:
        ConfigError: A name or a value cannot be sent, or the name is reserved.  No value is shown.
    """
    checked: dict[str, str] = {}
    for raw_name, raw_value in headers.items():
        name, value = trimmed(str(raw_name)).lower(), raw_value
        if not _NAME.fullmatch(name):
            raise ConfigError("the name of a default header is not one that HTTP allows")
        if name in RESERVED:
            raise ConfigError(f"the default header `{name}` is the engine's own to set")
        if not isinstance(value, str) or not is_header_value(trimmed(value)):  # pyright: ignore[reportUnnecessaryIsInstance]  # a host's settings may be untyped
            raise ConfigError(f"the value of the default header `{name}` is not one that HTTP allows")
        checked[name] = trimmed(value)
    return checked
