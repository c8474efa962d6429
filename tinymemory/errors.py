"""Every error the library raises: one base, and one class for each thing a caller can do about it.

Messages are lower case, name the thing that failed, and carry no credential and no user text.  All
of them survive pickling and compare by class and message, because they cross process borders.
"""

import re
from typing import ClassVar

_CODE = re.compile(r"\[([A-Z0-9_]+)\] ")


class TinyMemoryError(Exception):
    """Base of every error; `str()` is `<wire kind>: <message>`, here the message alone."""

    wire_kind: ClassVar[str | None] = None
    is_transient: ClassVar[bool] = False
    """Whether the same call may succeed later, unchanged."""

    message: str
    code: str | None
    """The `[CODE]` a hosted back-end named at the head of its message, else None."""

    def __init__(self, message: str, *, code: str | None = None) -> None:
        # Only the message is positional: unpickling calls `cls(*args)` and then restores the
        # attributes, and Celery moves errors between processes that way.
        super().__init__(message)
        self.message = message
        self.code = code if code is not None else _leading_code(message)

    def __str__(self) -> str:
        return self.message if self.wire_kind is None else f"{self.wire_kind}: {self.message}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TinyMemoryError):
            return NotImplemented
        return type(self) is type(other) and self.message == other.message

    def __hash__(self) -> int:
        return hash((type(self), self.message))


class UnsupportedError(TinyMemoryError):
    """The engine, or these tools, do not offer the operation."""

    wire_kind = "unsupported"


class InvalidRequestError(TinyMemoryError):
    """What was asked is malformed; the message names the field."""

    wire_kind = "invalid request"


class UnauthorizedError(TinyMemoryError):
    """The credential is missing, expired or rejected."""

    wire_kind = "unauthorized"


class NotFoundError(TinyMemoryError):
    """The thing addressed, or the route to it, does not exist."""

    wire_kind = "not found"


class ConflictError(TinyMemoryError):
    """The write conflicts with what is held."""

    wire_kind = "conflict"


class UnavailableError(TinyMemoryError):
    """No answer this time: a timeout, a rate limit, an outage.  Trying again may work."""

    wire_kind = "unavailable"
    is_transient = True

    retry_after: float | None
    """Seconds to stay away, when the other side said."""

    def __init__(self, message: str, retry_after: float | None = None, *, code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.retry_after = retry_after


class UnreachableError(UnavailableError):
    """The host could not be reached at all: DNS, TLS, connection refused."""


class EngineError(TinyMemoryError):
    """The engine's own failure, sanitised."""

    wire_kind = "engine error"


class InsufficientCreditsError(EngineError):
    """The account behind the credential is out of credits (HTTP 402)."""

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message, code=code)
        if self.code is None:
            self.code = "USER_INSUFFICIENT_CREDITS"


class ConfigError(TinyMemoryError):
    """The configuration cannot work: an unknown engine, a missing key, a cleartext endpoint."""

    wire_kind = "configuration error"


def _leading_code(message: str) -> str | None:
    match = _CODE.match(message)
    return match[1] if match else None
