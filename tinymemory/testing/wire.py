"""What both wires share: the gate a request passes, the faults around a route, the 429s."""

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

from tinymemory.testing.clock import Clock
from tinymemory.testing.event import Event
from tinymemory.testing.knobs import Knobs
from tinymemory.testing.log import Appended, EventLog
from tinymemory.testing.raw import RawAnswer
from tinymemory.testing.recall import Packs
from tinymemory.testing.refusal import FaultError, RateLimitedError, RefusalError
from tinymemory.testing.schema import ensure_prefix, is_within
from tinymemory.testing.seen import Seen
from tinymemory.testing.serving import Answer, Request

EVENTS_BY_DEFAULT = SCOPES_BY_DEFAULT = BELIEFS_BY_DEFAULT = 50
MAX_SCOPES = 1000

Json = dict[str, Any]
Route = Callable[[Request], Awaitable[Answer]]


@dataclass(slots=True)
class _Window:
    started: float
    used: int = 0


@dataclass(slots=True)
class Wire(ABC):
    """One HTTP surface over the log."""

    log: EventLog
    packs: Packs
    knobs: Knobs
    seen: Seen
    clock: Clock
    windows: dict[str, _Window] = field(default_factory=dict[str, _Window])

    bodies: ClassVar[dict[tuple[str, str], str]]
    """Where `seen` keeps the body of a route."""

    @abstractmethod
    def route(self, request: Request) -> Route | None:
        """Who answers a request; None for nobody."""

    @abstractmethod
    def failure(self, refused: RefusalError) -> Answer:
        """How this wire says no."""

    @abstractmethod
    def missing(self) -> Answer:
        """What an unknown route answers."""

    @abstractmethod
    def shown(self, path: str) -> str:
        """A path as the caller reads it."""

    async def answer(self, request: Request) -> Answer | RawAnswer:
        """Pass a request through the gate to its route."""
        line = f"{request.method} {request.target}"
        self.seen.request(line, request.headers)
        self._keep_body(request)
        try:
            token = self._admit(request)
            if (raw := self.knobs.take_raw(line)) is not None:
                return raw
            self._spend(token)
            if request.is_too_large:
                raise RefusalError(413, "PAYLOAD_TOO_LARGE", "the body is over 32 MiB")
            route = self.route(request)
            return self.missing() if route is None else await route(request)
        except RefusalError as refused:
            answer = self.failure(refused)
            if answer.status != 429:
                return answer
            self.seen.limited += 1
            return Answer(answer.status, answer.body, self._limit_headers(request))

    # The gate.

    def _keep_body(self, request: Request) -> None:
        kind = self.bodies.get((request.method, request.path))
        if kind is None:
            return
        try:
            body = request.json() if request.content else {}
        except RefusalError:
            return
        if kind == "writes":
            self.keep_write(request, body)
        else:
            self.seen.body(kind, body)

    def keep_write(self, request: Request, body: Json) -> None:
        """Keep the body of an append or a bulk."""
        items: Any = body.get("items")
        events: list[Any] = cast("list[Any]", items) if isinstance(items, list) else [body]
        self.seen.write(body, events, request.headers.get("idempotency-key"))

    def _admit(self, request: Request) -> str:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        token = token.strip()
        wanted = self.knobs.accept_token
        if scheme.lower() != "bearer" or not token or (wanted is not None and token != wanted):
            raise FaultError(401, "UNAUTHORIZED", "no such key")
        if self.knobs.fail_all is not None:
            status, code = self.knobs.fail_all
            raise FaultError(status, code, "everything fails")
        return token

    def _spend(self, token: str) -> None:
        budget = self.knobs.rate_limit_per_minute
        if budget is None:
            return
        now = self.clock.seconds()
        window = self.windows.get(token)
        if window is None or now - window.started >= self.knobs.rate_limit_window:
            window = self.windows[token] = _Window(now)
        if window.used >= budget:
            raise RateLimitedError
        window.used += 1

    def _limit_headers(self, request: Request) -> dict[str, str]:
        token = request.headers.get("authorization", "").partition(" ")[2].strip()
        window = self.windows.get(token)
        length = self.knobs.rate_limit_window
        left = length if window is None else window.started + length - self.clock.seconds()
        seconds = str(max(1, math.ceil(left)))
        return {
            name: seconds if value is None else str(value)
            for name, value in self.knobs.rate_limit_headers.items()
        }

    # Parts of routes that differ only in how they are wrapped.

    def limit(self, counter: str) -> None:
        """Refuse with 429 while a counter lasts."""
        if self.knobs.take(counter):
            raise RateLimitedError

    def append_event(self, body: Json) -> Appended:
        """Append one event, with the write faults around the log."""
        if self.knobs.take("claim_then_fail"):
            raise FaultError(502, "UPSTREAM_UNAVAILABLE", "the append was not applied")
        if self.knobs.nth_write_is_due():
            raise FaultError(400, "BAD_REQUEST", "this write is refused")
        appended = self.log.append(body)
        if self.knobs.arm_after_write is not None:
            self.knobs.rate_limit_events, self.knobs.hide_listing = self.knobs.arm_after_write
            self.knobs.arm_after_write = None
        if self.knobs.take("apply_then_fail"):
            raise FaultError(503, "UPSTREAM_UNAVAILABLE", "the append was applied")
        return appended

    async def list_events(self, request: Request) -> Json:
        """One page of a scope's events: newest first, each twice."""
        with self.seen.listing():
            if self.knobs.listing_delay:
                await asyncio.sleep(self.knobs.listing_delay)
            self.limit("rate_limit_events")
            if self.knobs.take("state_change_events"):
                raise FaultError(503, "AUTHORIZATION_STATE_CHANGED", "the scope's authorization changed")
            return self._events_page(request)

    def _events_page(self, request: Request) -> Json:
        scope = request.param("scope")
        if not scope:
            raise RefusalError(400, "BAD_REQUEST", "scope is missing")
        cursor = request.param("cursor")
        offset = whole_number(cursor, 0)
        limit = whole_number(request.param("limit"), EVENTS_BY_DEFAULT)
        if self.knobs.take("hide_listing"):
            return {"items": [], "has_more": False, "next_cursor": str(offset)}
        labels = [label for label in (request.param("labels") or "").split(",") if label.strip()]
        events = self.log.newest_first(scope, labels)
        copies = range(offset, min(offset + limit, 2 * len(events)))
        items = [self.event_json(events[copy // 2]) for copy in copies]
        page: Json = {
            "items": items,
            "has_more": offset + len(items) < 2 * len(events),
            "next_cursor": str(offset + len(items)),
        }
        if self.knobs.stuck_cursor:
            page |= {"has_more": True, "next_cursor": cursor or "0"}
        elif self.knobs.endless_listing:
            page |= {"has_more": True, "next_cursor": str(offset + max(limit, 1))}
        return page

    async def recall_pack(self, request: Request) -> Json:
        """One pack, its paths as the caller reads them."""
        with self.seen.recall():
            if self.knobs.recall_delay:
                await asyncio.sleep(self.knobs.recall_delay)
            self.limit("rate_limit_recalls")
            if self.knobs.recall_down:
                raise RefusalError(500, "INTERNAL", "recall is down")
            pack = self.packs.recall(request.json())
        for layer in pack["layers"].values():
            layer[:] = [self.prefixed(entry) for entry in layer]
        return pack

    def forget_events(self, body: Json) -> Json:
        """Forget, with the faults around it."""
        forgotten = self.log.forget(body)
        if self.knobs.take("forget_apply_then_fail"):
            raise FaultError(503, "UPSTREAM_UNAVAILABLE", "the forget was applied")
        if self.knobs.forget_missing_404 and not forgotten.matched:
            raise RefusalError(404, "NOT_FOUND", "none of the ids exists")
        return {
            "deleted": {"events": forgotten.events, "beliefs": forgotten.beliefs},
            "requested": forgotten.requested,
            "matched": forgotten.matched,
            "audit_id": self.log.next_audit(),
        }

    def list_paths(self, request: Request) -> list[str]:
        """Registered scopes under a prefix, at most a thousand."""
        if self.knobs.scope_listing_missing:
            raise RefusalError(404, "NOT_FOUND", "no such route")
        prefix = request.param("prefix")
        paths = self.log.scopes()
        if prefix is not None:
            ensure_prefix(prefix)
            if self.knobs.string_prefix_scopes:
                paths = [path for path in paths if path.startswith(prefix)]
            else:
                paths = [path for path in paths if is_within(path, prefix)]
        limit = whole_number(request.param("limit"), SCOPES_BY_DEFAULT)
        return [self.shown(path) for path in paths[: min(limit, MAX_SCOPES)]]

    def event_json(self, event: Event) -> Json:
        """An event as the caller reads it."""
        return event.shown(self.shown(event.scope))

    def prefixed(self, entry: Json) -> Json:
        """A fact, belief or event with its path as the caller reads it."""
        scope = entry.get("scope")
        return {**entry, "scope": self.shown(scope)} if isinstance(scope, str) else entry


def whole_number(text: str | None, default: int) -> int:
    """A parameter that counts; what does not parse is its default."""
    # Python reads no number of more digits than this, and nothing counts so far.
    is_number = text is not None and text.isascii() and text.isdigit() and len(text) <= 4300
    return int(text) if text is not None and is_number else default
