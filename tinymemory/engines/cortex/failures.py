"""What a failed exchange becomes: one library error, saying what happened and holding no secret."""

import json
import re
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from tinymemory.engines.cortex.answers import fields
from tinymemory.engines.cortex.body import parse_json
from tinymemory.engines.cortex.surface import Surface
from tinymemory.errors import (
    ConflictError,
    EngineError,
    InsufficientCreditsError,
    InvalidRequestError,
    NotFoundError,
    TinyMemoryError,
    UnauthorizedError,
    UnavailableError,
    UnreachableError,
)
from tinymemory.text import trimmed

STATE_CHANGED = "AUTHORIZATION_STATE_CHANGED"
"""The code of a server whose permissions are being reloaded; it passes within seconds."""
OUT_OF_CREDITS = "USER_INSUFFICIENT_CREDITS"
WORDS = 300
"""How many characters of the other side's own text a message shows."""
DASH = " — "
"""Stands before the other side's own text, and nowhere else."""

_CODE_LENGTH = 64
_CLASS_BY_STATUS: dict[int, type[TinyMemoryError]] = {
    400: InvalidRequestError,
    401: UnauthorizedError,
    403: UnauthorizedError,
    404: NotFoundError,
    408: UnavailableError,
    409: ConflictError,
    413: InvalidRequestError,
    422: InvalidRequestError,
    429: UnavailableError,
    500: UnavailableError,
    502: UnavailableError,
    503: UnavailableError,
    504: UnavailableError,
}
_DEFAULT_CODES = {401: "UNAUTHORIZED", 402: OUT_OF_CREDITS, 403: "UNAUTHORIZED", 429: "RATE_LIMITED"}
_PLAIN = re.compile(r"[!#-&(-\[\]-~]+")  # ASCII but quotes and the backslash
_PARTS = re.compile(rf"{_PLAIN.pattern}|.", re.DOTALL)
_LINE_BREAKERS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An answer that is no success, and what is needed to speak of it."""

    surface: Surface
    route: str
    host: str
    status: int
    body: bytes
    token: str = field(repr=False)
    retry_after: float | None = None

    def error(self) -> TinyMemoryError:
        """The error this status means, with the other side's own words cut and masked."""
        answer = self._json()
        code = self._code(answer)
        kind = self._class(code)
        prefix = f"[{code}] " if code else ""
        message = f"{prefix}{self.route} at {self.host} answered {self.status}{self._advice(kind)}"
        if words := self._words(answer):
            message += DASH + words
        if kind is UnavailableError:
            return UnavailableError(message, retry_after=self.retry_after)
        return kind(message)

    def _json(self) -> Mapping[str, Any]:
        try:
            return fields(parse_json(self.body))
        except ValueError:
            return {}

    def _code(self, answer: Mapping[str, Any]) -> str | None:
        if not self.surface.is_hosted:
            return STATE_CHANGED if answer.get("error_code") == STATE_CHANGED else None
        named = answer.get("errorCode")
        kept = re.sub(r"[^A-Za-z0-9_]", "", masked(named, self.token)) if isinstance(named, str) else ""
        return kept[:_CODE_LENGTH].upper() or _DEFAULT_CODES.get(self.status, f"HTTP_{self.status}")

    def _class(self, code: str | None) -> type[TinyMemoryError]:
        if self.surface.is_hosted and self.status == 402 and code == OUT_OF_CREDITS:
            return InsufficientCreditsError
        # An older back-end relays the memory API's 409 so.
        if self.surface.is_hosted and self.status == 400 and code == "CONFLICT":
            return ConflictError
        return _CLASS_BY_STATUS.get(self.status, EngineError)

    def _advice(self, kind: type[TinyMemoryError]) -> str:
        if kind is UnauthorizedError:
            return " (sign in again, or check the key)" if self.surface.is_hosted else " (check the key)"
        return " (the account is out of credits)" if kind is InsufficientCreditsError else ""

    def _words(self, answer: Mapping[str, Any]) -> str:
        text = self.body.decode("utf-8", "replace")
        if self.surface.is_hosted and "error" in answer:
            error = answer["error"]
            text = error if isinstance(error, str) else json.dumps(error, ensure_ascii=False)
        return shown(text, self.token)


def shown(text: str, token: str) -> str:
    """Another party's words, fit for a message: without the token, on one line, at most 300 characters."""
    text = trimmed(_LINE_BREAKERS.sub(" ", masked(text, token)))
    return text if len(text) <= WORDS else text[:WORDS] + "…"


def masked(text: str, token: str) -> str:
    """A text with `***` wherever the token stands, however it is written there."""
    if not token or not _PLAIN.search(token):
        return text.replace(token, "***") if token else text
    # In JSON, in Python's bytes and after a wrong decoding, all but its plain characters look otherwise.
    spelling = "".join(
        re.escape(part) if _PLAIN.match(part) else ".{1,10}?" for part in _PARTS.findall(token)
    )
    return re.sub(spelling, "***", text, flags=re.DOTALL)


def shown_cause(error: BaseException | None, token: str) -> BaseException | None:
    """A fault below, for a traceback; None when it repeats the token, as one about a bad header may."""
    said = "" if error is None else " ".join(f"{fault} {fault!r}" for fault in _chain(error))
    return error if masked(said, token) == said else None


def no_response(error: Exception, host: str, token: str) -> TinyMemoryError:
    """What to raise when an exchange failed without an answer."""
    kind, what = _cause(error)
    words = shown(str(error), token)
    return kind(f"{host} {what}" + (DASH + words if words else ""))


def _cause(error: Exception) -> tuple[type[TinyMemoryError], str]:
    stack = _chain(error)
    match error:
        case httpx.TimeoutException() | TimeoutError():
            return UnavailableError, "did not answer in time"
        case _ if any(isinstance(fault, socket.gaierror) for fault in stack):
            return UnreachableError, "was not found: its name does not resolve (check the URL)"
        case _ if any(isinstance(fault, ssl.SSLError) for fault in stack):
            return UnreachableError, "is not trusted: the secure connection failed (is that the right host?)"
        case httpx.ConnectError() | httpx.ProxyError():
            return UnreachableError, (
                "was not reached: nothing accepted the connection (check the URL and that the service runs)"
            )
        case httpx.LocalProtocolError() | httpx.UnsupportedProtocol():
            return EngineError, "was not asked: the request could not be built"
        case httpx.TransportError():
            return UnavailableError, "broke the connection off"
        case _:
            return EngineError, "was not asked: the request could not be built"


def _chain(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    left: list[BaseException | None] = [error]
    while left:
        fault = left.pop()
        if fault is None or fault in found:
            continue
        found.append(fault)
        left += [fault.__cause__, fault.__context__]
        if isinstance(fault, BaseExceptionGroup):
            left += fault.exceptions  # pyright: ignore[reportUnknownMemberType]
    return found
