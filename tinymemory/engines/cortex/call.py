"""One request to a memory server: its route, its parameters, its body."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from tinymemory.engines.cortex.compact import compact
from tinymemory.engines.cortex.endpoint import Endpoint
from tinymemory.errors import InvalidRequestError


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A route below the endpoint, its parameters in order, and a JSON object to send."""

    method: str
    route: str
    query: Sequence[tuple[str, str]] = ()
    body: Mapping[str, Any] | bytes | None = None
    """A JSON object, or one that is encoded already."""
    is_repeatable: bool = False
    """A read, tried again after a transient failure.  A write is not: nobody knows whether it was applied."""
    claim: str | None = None
    """The `Idempotency-Key` of a hosted write."""

    def url(self, endpoint: Endpoint) -> str:
        """Where it goes; every byte of a value outside `A-Z a-z 0-9 - . _ ~` is percent-encoded.

        Raises:
            InvalidRequestError: A value cannot be encoded.
        """
        with encodable():
            query = "&".join(f"{name}={quote(value, safe='')}" for name, value in self.query)
        return endpoint.join(self.route) + (f"?{query}" if query else "")

    def content(self) -> bytes | None:
        """The body's bytes: compact JSON in UTF-8.

        Raises:
            InvalidRequestError: A text in it cannot be encoded.
        """
        if self.body is None or isinstance(self.body, bytes):
            return self.body
        with encodable():
            return compact(self.body).encode()


@contextmanager
def encodable() -> Generator[None]:
    """Turn a text that no UTF-8 can carry into an `InvalidRequestError`."""
    broken = False
    try:
        yield
    except UnicodeEncodeError:
        broken = True
    # Raised out here so that the error has no cause: that would hold the text.
    if broken:
        raise InvalidRequestError("a text holds half a character (a lone surrogate), which cannot be sent")
