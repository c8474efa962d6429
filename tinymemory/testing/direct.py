"""The direct wire: a CortexDB server's `v1/…` routes, answers bare."""

import itertools
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tinymemory.testing.raw import RawAnswer
from tinymemory.testing.refusal import FaultError, RefusalError, invalid_body
from tinymemory.testing.schema import MAX_BULK, BulkBody, parse_body
from tinymemory.testing.serving import Answer, Request
from tinymemory.testing.wire import BELIEFS_BY_DEFAULT, Json, Route, Wire, whole_number

VERSION = "v0.10.5"
WHOAMI = "/v1/auth/whoami"
_ERASURES = "/v1/erasures"


@dataclass(slots=True)
class DirectWire(Wire):
    """CortexDB itself."""

    bodies: ClassVar[dict[tuple[str, str], str]] = {
        ("POST", "/v1/experience"): "writes",
        ("POST", "/v1/experience/bulk"): "writes",
        ("POST", "/v1/recall"): "recalls",
        ("POST", "/v1/answer"): "answers",
        ("POST", "/v1/forget"): "forgets",
        ("POST", "/v1/beliefs/build"): "builds",
        ("POST", _ERASURES): "erasures",
    }
    request_ids: Any = field(default_factory=lambda: itertools.count(1))
    running: dict[str, int] = field(default_factory=dict[str, int])
    """Erasures by id, and the polls each still takes."""

    async def answer(self, request: Request) -> Answer | RawAnswer:
        """Answer `whoami` at the door; everything else passes the gate."""
        if (request.method, request.path) == ("GET", WHOAMI):
            return self._whoami(request)
        return await Wire.answer(self, request)

    def route(self, request: Request) -> Route | None:
        """Who answers a request."""
        if request.method == "GET" and request.path.startswith(_ERASURES + "/"):
            return None if self.knobs.scoped_erase_missing else self._erasure
        return {
            ("POST", "/v1/experience"): self._append,
            ("POST", "/v1/experience/bulk"): self._bulk,
            ("GET", "/v1/events"): self._events,
            ("POST", "/v1/recall"): self._recall,
            ("POST", "/v1/answer"): self._answer,
            ("POST", "/v1/forget"): self._forget,
            ("GET", "/v1/scopes/list"): self._scopes,
            ("POST", "/v1/beliefs/build"): self._build,
            ("GET", "/v1/beliefs"): self._beliefs,
            ("GET", "/v1/admin/health"): self._health,
            ("GET", "/v1/admin/version"): self._version,
            ("POST", _ERASURES): None if self.knobs.scoped_erase_missing else self._erase,
        }.get((request.method, request.path))

    def failure(self, refused: RefusalError) -> Answer:
        """The error body of CortexDB."""
        body = {
            "error_code": refused.code,
            "message": refused.message,
            "request_id": f"req_{next(self.request_ids)}",
            "retriable": refused.status in (408, 429) or refused.status >= 500,
        }
        return Answer(refused.status, body)

    def missing(self) -> Answer:
        """An unknown route."""
        return self.failure(RefusalError(404, "NOT_FOUND", "no such route"))

    def shown(self, path: str) -> str:
        """A path is read back as it was written."""
        return path

    def _whoami(self, request: Request) -> Answer | RawAnswer:
        if self.seen.recording:
            self.seen.whoami.append(request.headers)
        if (raw := self.knobs.take_raw(f"GET {request.target}", at_least=f"GET {WHOAMI}")) is not None:
            return raw
        if self.knobs.whoami_status is not None:
            return self.failure(RefusalError(self.knobs.whoami_status, "WHOAMI_FAILS", "whoami fails"))
        if self.knobs.whoami_caller is None:
            return self.missing()
        return Answer(200, {"caller": self.knobs.whoami_caller})

    async def _append(self, request: Request) -> Answer:
        body = request.json()
        self.limit("rate_limit_writes")
        appended = self.append_event(body)
        return Answer(
            202,
            {
                "event_id": appended.event_id,
                "status": "captured",
                "replayed_from_idempotency": appended.replayed,
            },
        )

    async def _bulk(self, request: Request) -> Answer:
        items = parse_body(BulkBody, request.json()).items
        if len(items) > MAX_BULK:
            raise invalid_body(f"items: over {MAX_BULK}")
        results: list[Json] = []
        for index, item in enumerate(items):
            # The first failure is the answer; what was applied before it stays.
            self.limit("rate_limit_writes")
            appended = self.append_event(item)
            results.append(
                {
                    "index": index,
                    "event_id": appended.event_id,
                    "replayed_from_idempotency": appended.replayed,
                }
            )
        return Answer(200, {"accepted": len(results), "results": results})

    async def _events(self, request: Request) -> Answer:
        return Answer(200, await self.list_events(request))

    async def _recall(self, request: Request) -> Answer:
        return Answer(200, await self.recall_pack(request))

    async def _answer(self, request: Request) -> Answer:
        return Answer(200, self.packs.answer(request.json()))

    async def _forget(self, request: Request) -> Answer:
        body = request.json()
        self.limit("rate_limit_forgets")
        return Answer(200, self.forget_events(body))

    async def _scopes(self, request: Request) -> Answer:
        return Answer(200, {"items": [{"path": path} for path in self.list_paths(request)]})

    async def _build(self, request: Request) -> Answer:
        scope = request.json().get("scope")
        if not isinstance(scope, str) or not scope:
            raise invalid_body("scope: field required")
        return Answer(200, self.log.build(scope))

    async def _beliefs(self, request: Request) -> Answer:
        beliefs = self.log.beliefs(request.param("scope") or "")
        limit = whole_number(request.param("limit"), BELIEFS_BY_DEFAULT)
        return Answer(200, {"items": beliefs[:limit], "has_more": len(beliefs) > limit})

    async def _health(self, request: Request) -> Answer:
        return Answer(200, {"status": "healthy"})

    async def _version(self, request: Request) -> Answer:
        if self.knobs.version_status is not None:
            raise FaultError(self.knobs.version_status, "VERSION_FAILS", "version fails")
        return Answer(200, {"version": VERSION, "capabilities": list(self.knobs.capabilities)})

    async def _erase(self, request: Request) -> Answer:
        body = request.json()
        scope = body.get("scope")
        if not isinstance(scope, str):
            raise invalid_body("scope: field required")
        if body.get("confirm_all") is not True or "selector" in body:
            raise invalid_body("confirm_all: must be true, and no selector beside it")
        if self.knobs.take("erasure_incomplete_for"):
            raise FaultError(502, "ERASURE_INCOMPLETE", "the erasure is not complete")
        self.log.erase(scope)
        erasure_id = self.log.next_erasure()
        self.running[erasure_id] = self.knobs.erasure_running_for
        return Answer(202, {"erasure_id": erasure_id, "status": self._status(erasure_id)})

    async def _erasure(self, request: Request) -> Answer:
        erasure_id = request.path.removeprefix(_ERASURES + "/")
        if erasure_id not in self.running:
            raise RefusalError(404, "NOT_FOUND", "no such erasure")
        self.running[erasure_id] = max(0, self.running[erasure_id] - 1)
        return Answer(200, {"erasure_id": erasure_id, "status": self._status(erasure_id)})

    def _status(self, erasure_id: str) -> str:
        return "running" if self.running[erasure_id] else self.knobs.erasure_status
