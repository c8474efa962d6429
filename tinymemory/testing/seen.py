"""What a loopback server was asked, in order, for a test to assert on."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

Body = dict[str, Any]


@dataclass(slots=True)
class Seen:
    """Every request that arrived, refused or not; `whoami` apart, so that counts do not depend on it."""

    requests: list[str] = field(default_factory=list[str])
    """`METHOD /path?query`, as sent."""
    auth: list[str | None] = field(default_factory=list[str | None])
    """The `Authorization` header of each request; None when it had none."""
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    """The headers of each request, names in lower case."""
    whoami: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    """The headers of each `whoami`."""
    writes: list[Body] = field(default_factory=list[Body])
    """The bodies of appends and bulks."""
    idempotency: list[tuple[str | None, str | None]] = field(
        default_factory=list[tuple[str | None, str | None]]
    )
    """For each event sent: its key in the body, and the request's `Idempotency-Key` header."""
    recalls: list[Body] = field(default_factory=list[Body])
    answers: list[Body] = field(default_factory=list[Body])
    forgets: list[Body] = field(default_factory=list[Body])
    builds: list[Body] = field(default_factory=list[Body])
    erasures: list[Body] = field(default_factory=list[Body])
    limited: int = 0
    """How many of the requests were answered 429."""
    listings_in_flight: int = 0
    listings_peak: int = 0
    recalls_in_flight: int = 0
    recalls_peak: int = 0
    recording: bool = True
    """Off, nothing but the counts in flight is kept: for a server that runs for long."""

    def count(self, prefix: str = "") -> int:
        """How many requests start with `METHOD /path…`."""
        return sum(request.startswith(prefix) for request in self.requests)

    def clear(self) -> None:
        """Forget what was seen so far."""
        for kept in (self.requests, self.auth, self.headers, self.whoami, self.writes, self.idempotency):
            kept.clear()
        for bodies in (self.recalls, self.answers, self.forgets, self.builds, self.erasures):
            bodies.clear()
        self.limited = 0
        self.listings_peak, self.recalls_peak = self.listings_in_flight, self.recalls_in_flight

    def request(self, line: str, headers: dict[str, str]) -> None:
        """Keep one request."""
        if self.recording:
            self.requests.append(line)
            self.auth.append(headers.get("authorization"))
            self.headers.append(headers)

    def body(self, kind: str, body: Body) -> None:
        """Keep one body under `recalls`, `answers`, `forgets`, `builds` or `erasures`."""
        if self.recording:
            getattr(self, kind).append(body)

    def write(self, body: Body, events: list[Any], header: str | None) -> None:
        """Keep the body of an append or a bulk, and the keys of its events."""
        if not self.recording:
            return
        self.writes.append(body)
        for event in events:
            key = event.get("idempotency_key") if isinstance(event, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]  # the wire's own JSON
            self.idempotency.append((key if isinstance(key, str) else None, header))

    @contextmanager
    def listing(self) -> Generator[None]:
        """Count a listing as in flight."""
        self.listings_in_flight += 1
        self.listings_peak = max(self.listings_peak, self.listings_in_flight)
        try:
            yield
        finally:
            self.listings_in_flight -= 1

    @contextmanager
    def recall(self) -> Generator[None]:
        """Count a recall as in flight."""
        self.recalls_in_flight += 1
        self.recalls_peak = max(self.recalls_peak, self.recalls_in_flight)
        try:
            yield
        finally:
            self.recalls_in_flight -= 1
