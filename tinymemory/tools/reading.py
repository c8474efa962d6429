"""The reads: recall, fetch, list, get and explore, each confined to the scope's reach."""

from typing import Any

from tinymemory.engine import MemoryEngine
from tinymemory.errors import InvalidRequestError
from tinymemory.layout import composed
from tinymemory.meta import MetaFilter
from tinymemory.namespace import Reach
from tinymemory.query import (
    ExploreRequest,
    FetchMode,
    FetchRequest,
    GetRequest,
    ListRequest,
    RecallRequest,
    TimeHint,
)
from tinymemory.tools.rendering import rendered_citation, rendered_hit, rendered_page
from tinymemory.tools.spec import ToolName


class ToolReads:
    """The reading tools over one engine, one reach and one time zone; arguments have been read strictly."""

    def __init__(self, engine: MemoryEngine, reach: Reach | None, zone: str | None) -> None:
        self._engine = engine
        self._reach = reach
        self._zone = zone

    async def recall(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """`{answer, citations}`."""
        answer = await self._engine.recall(
            RecallRequest(
                question=arguments["question"],
                filter=self.filter(ToolName.RECALL, arguments),
                limit=arguments["limit"],
                instructions=arguments.get("instructions"),
                refers_to=self._hint(ToolName.RECALL, arguments),
            )
        )
        return {
            "answer": answer.answer,
            "citations": [rendered_citation(citation) for citation in answer.citations],
        }

    async def fetch(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """`{hits, next_cursor?}`."""
        page = await self._engine.fetch(
            FetchRequest(
                query=arguments["query"],
                mode=FetchMode(arguments["mode"]) if "mode" in arguments else self._usual_mode(),
                filter=self.filter(ToolName.FETCH, arguments),
                limit=arguments["limit"],
                cursor=arguments.get("cursor"),
                refers_to=self._hint(ToolName.FETCH, arguments),
            )
        )
        return rendered_page("hits", page.hits, page.next_cursor)

    async def list(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """`{items, next_cursor?}`."""
        page = await self._engine.list(
            ListRequest(
                filter=self.filter(ToolName.LIST, arguments),
                limit=arguments["limit"],
                cursor=arguments.get("cursor"),
            )
        )
        return rendered_page("items", page.items, page.next_cursor)

    async def get(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """`{items, missing}`; what is out of reach is missing like what does not exist."""
        ids: list[str] = arguments["ids"]
        found = await self._engine.get(GetRequest(ids=tuple(ids), reach=self._reach))
        known = {hit.id for hit in found}
        return {
            "items": [rendered_hit(hit) for hit in found],
            "missing": [id_ for id_ in ids if id_ not in known],
        }

    async def explore(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """`{facet, buckets, total, missing, more_buckets, truncated}`."""
        request = ExploreRequest.model_validate(
            {
                "facet": arguments["facet"],
                "limit": arguments["limit"],
                "filter": self.filter(ToolName.EXPLORE, arguments),
            }
        )
        return (await self._engine.explore(request)).model_dump(mode="json")

    def filter(self, tool: ToolName, arguments: dict[str, Any]) -> MetaFilter:
        """The model's filter with the scope's reach over it."""
        chosen: dict[str, Any] = arguments.get("filter", {})
        after, before = chosen.get("observed_after"), chosen.get("observed_before")
        if after is not None and before is not None and before <= after:
            raise InvalidRequestError(
                f"{tool}: `filter.observed_before` is not after `filter.observed_after`: nothing can match"
            )
        # As agents and threads are stored by: a model may spell an id in another Unicode form.
        ids = {name: composed(chosen[name]) for name in ("agent_id", "thread_id") if name in chosen}
        return MetaFilter.model_validate({**chosen, **ids, "reach": self._reach})

    def _usual_mode(self) -> FetchMode:
        descriptor = self._engine.descriptor
        return FetchMode.HYBRID if descriptor.supports(FetchMode.HYBRID) else descriptor.fetch_modes[0]

    def _hint(self, tool: ToolName, arguments: dict[str, Any]) -> TimeHint | None:
        days = arguments.get("refers_to")
        if days is None:
            return None
        start = days["from"]
        end = days.get("to", start)
        if end < start:
            raise InvalidRequestError(f"{tool}: `refers_to.to` ({end}) is before `refers_to.from` ({start})")
        return TimeHint(start, end, self._zone)
