"""The hosted wire: a back-end's `memory/…` routes, answers in an envelope, with CortexDB behind it."""

import re
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tinymemory.testing.refusal import FaultError, RateLimitedError, RefusalError
from tinymemory.testing.schema import ensure_hosted_path
from tinymemory.testing.serving import Answer, Request
from tinymemory.testing.wire import Json, Route, Wire

_CLAIM = re.compile(r"[A-Za-z0-9_-]{1,128}")
_ANSWER_FIELDS = frozenset(
    {
        "scope",
        "question",
        "question_type",
        "question_date",
        "temporal",
        "filters",
        "answer_max_tokens",
        "answer_instructions",
        "cite_sources",
        "include_context",
        "use_pack_id",
    }
)
_ERASURE_FIELDS = frozenset(("scope", "audit_note"))
_ERASURES = "/memory/v1/erasures"

_RELAYED = {
    401: (502, "UPSTREAM_UNAVAILABLE"),
    402: (402, "USER_INSUFFICIENT_CREDITS"),
    403: (502, "UPSTREAM_UNAVAILABLE"),
    404: (404, "NOT_FOUND"),
    413: (413, "PAYLOAD_TOO_LARGE"),
    503: (503, "UPSTREAM_UNAVAILABLE"),
}


@dataclass(slots=True)
class HostedWire(Wire):
    """The back-end of TinyHumans."""

    bodies: ClassVar[dict[tuple[str, str], str]] = {
        # Not the append: it is kept behind its limiter, as what the back-end passes on.
        ("POST", "/memory/recall"): "recalls",
        ("POST", "/memory/answer"): "answers",
        ("POST", "/memory/forget"): "forgets",
        ("POST", _ERASURES): "erasures",
        ("DELETE", "/memory"): "erasures",
    }
    claims: set[str] = field(default_factory=set[str])

    def route(self, request: Request) -> Route | None:
        """Who answers a request."""
        return {
            ("POST", "/memory/experience"): self._append,
            ("GET", "/memory/events"): self._events,
            ("POST", "/memory/recall"): self._recall,
            ("POST", "/memory/answer"): self._answer,
            ("POST", "/memory/forget"): self._forget,
            ("GET", "/memory/scopes"): self._scopes,
            ("POST", _ERASURES): None if self.knobs.scoped_erase_missing else self._erase,
            ("DELETE", "/memory"): None if self.knobs.erase_all_missing else self._erase_all,
        }.get((request.method, request.path))

    def failure(self, refused: RefusalError) -> Answer:
        """A failure in the back-end's envelope; of CortexDB's own codes few survive."""
        if isinstance(refused, RateLimitedError):
            return Answer(429, {"error": {"message": "too many requests", "type": "rate_limit_error"}})
        status, code = self._relayed(refused)
        return Answer(status, {"success": False, "error": f"refused: {code}", "errorCode": code})

    def missing(self) -> Answer:
        """An unknown route, outside the envelope."""
        return Answer(404, {"message": "Not Found"})

    def shown(self, path: str) -> str:
        """A path is read back below its tenant."""
        return f"{self.knobs.tenant_prefix}/{path}"

    def _relayed(self, refused: RefusalError) -> tuple[int, str]:
        if isinstance(refused, FaultError):
            return refused.status, refused.code
        if refused.status == 409:
            return self.knobs.conflict_status, "CONFLICT"
        if refused.status in _RELAYED:
            return _RELAYED[refused.status]
        if 400 <= refused.status < 500:
            return 400, "BAD_REQUEST"
        return 502, "UPSTREAM_UNAVAILABLE"

    def _claim(self, request: Request) -> None:
        claim = request.headers.get("idempotency-key")
        if claim is None:
            return
        if not _CLAIM.fullmatch(claim):
            raise FaultError(400, "VALIDATION_ERROR", "not an idempotency key")
        if claim in self.claims:
            raise RefusalError(409, "CONFLICT", "the claim is taken")
        self.claims.add(claim)

    async def _append(self, request: Request) -> Answer:
        body = request.json()
        ensure_hosted_path(body.get("scope"))
        self.limit("rate_limit_writes")
        self.keep_write(request, body)
        self._claim(request)
        appended = self.append_event(body)
        return _success(
            {
                "event_id": appended.event_id,
                "status": "captured",
                "replayed_from_idempotency": appended.replayed,
            },
            202,
        )

    async def _events(self, request: Request) -> Answer:
        if sum(name == "labels" for name, _ in request.query) > 1:
            raise FaultError(400, "VALIDATION_ERROR", "labels is repeated")
        ensure_hosted_path(request.param("scope"))
        return _success(await self.list_events(request))

    async def _recall(self, request: Request) -> Answer:
        ensure_hosted_path(request.json().get("scope"))
        self._claim(request)
        return _success(await self.recall_pack(request))

    async def _answer(self, request: Request) -> Answer:
        body = request.json()
        unknown = body.keys() - _ANSWER_FIELDS
        if unknown or ("answer_instructions" in body and body["answer_instructions"] is None):
            raise FaultError(400, "VALIDATION_ERROR", "unknown field, or null instructions")
        ensure_hosted_path(body.get("scope"))
        self._claim(request)
        return _success(self.packs.answer(body))

    async def _forget(self, request: Request) -> Answer:
        body = request.json()
        ensure_hosted_path(body.get("scope"))
        self.limit("rate_limit_forgets")
        self._claim(request)
        return _success(self.forget_events(body))

    async def _scopes(self, request: Request) -> Answer:
        prefix = request.param("prefix")
        if prefix is not None:
            ensure_hosted_path(prefix)
        return _success({"scopes": self.list_paths(request)})

    async def _erase(self, request: Request) -> Answer:
        body = request.json()
        scope = self._erasable(body)
        if self.knobs.take("erasure_incomplete_for"):
            raise FaultError(502, "ERASURE_INCOMPLETE", "the erasure is not complete")
        count = self.log.erase(scope)
        erased: Json = {
            "erased": True,
            "scope": scope,
            "scopes": count,
            "erasure_ids": [self.log.next_erasure()],
        }
        return Answer(200, erased)  # unwrapped: this route alone speaks without the envelope

    async def _erase_all(self, request: Request) -> Answer:
        if self.knobs.take("erasure_incomplete_for"):
            raise FaultError(502, "ERASURE_INCOMPLETE", "the erasure is not complete")
        return _success({"erased": True, "scopes": self.log.erase_all()})

    def _erasable(self, body: Json) -> str:
        if body.keys() - _ERASURE_FIELDS:
            raise FaultError(400, "UNKNOWN_FIELD", "unknown field")
        scope = body.get("scope")
        if not isinstance(scope, str):
            raise FaultError(400, "INVALID_SCOPE", "scope is not a string")
        if scope in ("", "/"):
            raise FaultError(422, "ROOT_ERASURE_REFUSED", "the root is erased by DELETE memory")
        ensure_hosted_path(scope)
        return scope


def _success(data: Any, status: int = 200) -> Answer:
    return Answer(status, {"success": True, "data": data})
