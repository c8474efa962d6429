"""The event log of a memory server, as calls: one method for each route."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tinymemory.engines.cortex.answers import fields, integer, members, text
from tinymemory.engines.cortex.call import Call
from tinymemory.engines.cortex.claims import Claims
from tinymemory.engines.cortex.compact import compact
from tinymemory.engines.cortex.layout import Event
from tinymemory.engines.cortex.packs import Budget, Pack, read_pack, temporal_json
from tinymemory.engines.cortex.scope import Scope
from tinymemory.engines.cortex.sharing import Shared
from tinymemory.engines.cortex.stored import RawEvent, raw_event
from tinymemory.engines.cortex.surface import Surface
from tinymemory.engines.cortex.transport import Transport
from tinymemory.errors import EngineError, NotFoundError
from tinymemory.query import TimeHint

PAGE_SIZE = 200
MAX_PAGES = 500
"""Of one walk: a log longer than this is refused, so that a part never passes for the whole."""
MAX_SCOPES = 1000
"""The most scopes a server lists; an answer that long may lack some."""
FORGET_BATCH = 100


class PageLimitError(EngineError):
    """A walk was longer than any that is taken for whole."""


@dataclass(frozen=True, slots=True)
class Appended:
    """An event as the log took it."""

    event_id: str
    is_replay: bool
    """Whether the server knew its key and wrote nothing."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a listing, newest first, every event twice in a row; None is none we can read."""

    events: Sequence[RawEvent | None]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class ScopeListing:
    """The paths below a node, as the server spells them."""

    paths: Sequence[str]
    is_truncated: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """What the answer route said."""

    text: str
    model: str | None


@dataclass(frozen=True, slots=True)
class Build:
    """What a belief build said of itself: a handle of its job, or how many it built."""

    job: str | None
    built: int | None


class Log:
    """The routes of one wire."""

    def __init__(self, transport: Transport, claims: Claims) -> None:
        self._transport = transport
        self._claims = claims
        self._listings = Shared[ScopeListing]()
        self._packs = Shared[Pack]()

    @property
    def surface(self) -> Surface:
        """Which wire this is."""
        return self._transport.surface

    @property
    def transport(self) -> Transport:
        """What sends the calls."""
        return self._transport

    def claim(self) -> str | None:
        """A claim for one write; None on the wire that knows none."""
        return self._claims.take() if self.surface.is_hosted else None

    async def append(self, event: Event, *, is_indexed: bool, claim: str | None = None) -> Appended:
        """Write one event, in one attempt; with `is_indexed` a direct server answers once it ranks it."""
        answer = await self._post(
            self.surface.append, event.body, query=self._wait(is_indexed), claim=claim or self.claim()
        )
        return _appended(answer)

    async def append_many(self, events: Sequence[Event], *, is_indexed: bool) -> list[Appended]:
        """Write events in order, in one attempt, on the wire that has this.

        Raises:
            EngineError: The answer does not account for every event; storing them again completes it.
        """
        assert self.surface.append_many is not None
        body = b'{"items":[' + b",".join(event.body for event in events) + b'],"ordering":"strict_temporal"}'
        answer = await self._post(self.surface.append_many, body, query=self._wait(is_indexed))
        results = members(fields(answer).get("results"))
        if len(results) != len(events):
            raise EngineError(f"the bulk answer has {len(results)} results for {len(events)} events")
        return [_appended(result) for result in results]

    async def page(self, scope: Scope, labels: Sequence[str] = (), cursor: str | None = None) -> Page:
        """One page of a scope's events that carry any of the labels.

        Raises:
            EngineError: The next cursor is the one just sent, so the listing would never end.
        """
        query = [("scope", scope.path), ("limit", str(PAGE_SIZE))]
        query += [("labels", ",".join(labels))] if labels else []
        query += [("cursor", cursor)] if cursor is not None else []
        answer = fields(await self._get(self.surface.events, query))
        next_cursor = text(answer.get("next_cursor")) if answer.get("has_more") is True else None
        if next_cursor is not None and next_cursor == cursor:
            raise EngineError(f"the listing of {scope} does not advance: it answered the cursor it was given")
        return Page([raw_event(item) for item in members(answer.get("items"))], next_cursor)

    async def walk(self, scope: Scope, labels: Sequence[str] = ()) -> AsyncIterator[RawEvent]:
        """A scope's events that carry any of the labels, newest first, each once.

        Raises:
            EngineError: There are more than 500 pages of them.
        """
        seen: set[str] = set()
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = await self.page(scope, labels, cursor)
            for event in page.events:
                if event is not None and event.id not in seen:
                    seen.add(event.id)
                    yield event
            cursor = page.next_cursor
            if cursor is None:
                return
        raise PageLimitError(f"the listing of {scope} exceeded {MAX_PAGES} pages")

    async def recall(
        self,
        scope: Scope,
        query: str,
        budget: Budget,
        *,
        labels: Sequence[str] = (),
        hint: TimeHint | None = None,
        began: int | None = None,
    ) -> Pack:
        """Rank one scope's events against a query, in one request with who asks the same (see `scopes`)."""
        # Exactly this scope: the server's own ways of going up and down would stray into siblings.
        body: dict[str, Any] = {"scope": scope.path, "query": query, "view": "granular", **budget.json()}
        if labels:
            body["filters"] = {"metadata": {"labels": list(labels)}}
        if hint is not None:
            body["temporal"] = temporal_json(hint)
        call = Call(method="POST", route=self.surface.recall, body=body, is_repeatable=True)

        async def ask() -> Pack:
            return read_pack(await self._transport.call(call), self._transport.credential.masked)

        return await self._packs.read(compact(body), ask, began)

    async def answer(self, scope: Scope, pack_id: str, question: str, instructions: str | None) -> Answer:
        """Answer a question from a pack.

        Raises:
            NotFoundError: The pack is gone: it was older than a minute, or something was forgotten.
        """
        body: dict[str, Any] = {
            "scope": scope.path,
            "question": question,
            "use_pack_id": pack_id,
            "cite_sources": True,
            "include_context": True,
        }
        # The back-end's schema refuses a null here; the server's own asks for one.
        if instructions is not None or not self.surface.is_hosted:
            body["answer_instructions"] = instructions
        answer = fields(await self._post(self.surface.answer, body, claim=self.claim()))
        words = text(answer.get("answer"))
        if words is None:
            raise EngineError("the answer route named no answer")
        return Answer(words, text(fields(answer.get("diagnostics")).get("answer_model")))

    async def forget(self, scope: Scope, event_ids: Sequence[str]) -> None:
        """Remove 1 to 100 events, and what was derived from them, in one attempt."""
        # An empty list would mean the whole scope to the server.
        assert 1 <= len(event_ids) <= FORGET_BATCH
        body = {
            "scope": scope.path,
            "layers": ["events"],
            "selector": {"memory_ids": list(event_ids)},
            "cascade": "redact_events",
            "audit_note": "tinymemory: forget",
        }
        await self._post(self.surface.forget, body, claim=self.claim())

    async def scopes(self, node: str, *, began: int | None = None) -> ScopeListing:
        """The scopes at a node's path and below it; none where the server does not list any.

        Args:
            node: The path.
            began: When the read that this is for began: it joins a request that left later.
        """
        return await self._listings.read(node, lambda: self._listed_scopes(node), began)

    async def _listed_scopes(self, node: str) -> ScopeListing:
        query = [("prefix", node), ("limit", str(MAX_SCOPES))]
        try:
            answer = fields(await self._get(self.surface.scopes, query))
        except NotFoundError:
            return ScopeListing([], is_truncated=False)
        entries = members(answer.get("items")) or members(answer.get("scopes"))
        paths = [text(entry) or text(fields(entry).get("path")) for entry in entries]
        return ScopeListing(
            [path for path in paths if path is not None], is_truncated=len(entries) >= MAX_SCOPES
        )

    async def build(self, scope: Scope) -> Build:
        """Build beliefs from a scope's facts, in one attempt, on the wire that has this."""
        assert self.surface.build is not None
        answer = fields(await self._post(self.surface.build, {"scope": scope.path}))
        handles = [_handle(answer.get(name)) for name in ("job_id", "build_id", "id")]
        return Build(next(filter(None, handles), None), integer(answer.get("built")))

    async def beliefs(self, scope: Scope, limit: int) -> Sequence[Any]:
        """A scope's beliefs, newest first, on the wire that lists them."""
        assert self.surface.beliefs is not None
        try:
            answer = await self._get(self.surface.beliefs, [("scope", scope.path), ("limit", str(limit))])
        except NotFoundError:
            return []
        return members(fields(answer).get("items"))

    async def health(self) -> None:
        """Return when the server is well."""
        call = Call(method="GET", route=self.surface.health, query=self.surface.health_query)
        await self._transport.call(call)

    async def capabilities(self) -> Sequence[Any]:
        """What the server says it can do, on the wire that says so."""
        assert self.surface.version is not None
        answer = await self._transport.call(Call(method="GET", route=self.surface.version))
        if not isinstance(answer, dict):
            raise EngineError("the version route answered no version")
        return members(fields(answer).get("capabilities"))

    def _wait(self, is_indexed: bool) -> Sequence[tuple[str, str]]:
        return [("wait", "indexed")] if is_indexed and not self.surface.is_hosted else []

    async def _get(self, route: str, query: Sequence[tuple[str, str]]) -> Any:
        return await self._transport.call(Call(method="GET", route=route, query=query, is_repeatable=True))

    async def _post(
        self,
        route: str,
        body: Mapping[str, Any] | bytes,
        *,
        query: Sequence[tuple[str, str]] = (),
        claim: str | None = None,
    ) -> Any:
        return await self._transport.call(
            Call(method="POST", route=route, query=query, body=body, claim=claim)
        )


def _appended(answer: Any) -> Appended:
    event_id = text(fields(answer).get("event_id"))
    if event_id is None:
        raise EngineError("the answer to an append names no event")
    return Appended(event_id, fields(answer).get("replayed_from_idempotency") is True)


def _handle(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    return str(value)
