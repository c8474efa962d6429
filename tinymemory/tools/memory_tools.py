"""The tools of one agent session: seven calls, confined to what the host chose."""

from collections.abc import Callable
from copy import copy
from datetime import UTC, date, datetime
from typing import Any, Self

from tinymemory.engine import MemoryEngine
from tinymemory.errors import InvalidRequestError, UnsupportedError
from tinymemory.model import Value
from tinymemory.namespace import Namespace, Reach
from tinymemory.query import TimeHint
from tinymemory.tools import writing
from tinymemory.tools.args import read_arguments
from tinymemory.tools.reading import ToolReads
from tinymemory.tools.spec import DESCRIPTIONS, Schema, ToolName, ToolSpec, schema_of


class ToolScope(Value):
    """Whose memory the tools touch.  The host fixes it; no argument of a tool can."""

    place: Namespace = Namespace.ROOT
    """Where every stored item is written."""
    reach: Reach | None = None
    """What every read, and every forget, is confined to; None is every namespace."""
    writes: bool = True
    """Whether `memory_store` and `memory_forget` are offered."""


class MemoryTools:
    """Seven memory tools over an engine, as specs for a runtime and one entry point for its calls.

    Build one per agent session, from who the session is and never from what the model said.  Each of
    `placed_at`, `with_reach`, `read_only` and `in_zone` answers new tools and leaves these as they are.
    """

    def __init__(
        self,
        engine: MemoryEngine,
        scope: ToolScope = ToolScope(),  # noqa: B008  # frozen
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.engine = engine
        self.scope = scope
        self.zone: str | None = None
        """The IANA time zone of the days in `refers_to`; None is UTC."""
        self._clock = clock

    def placed_at(self, place: Namespace | str) -> Self:
        """Tools that write at a namespace and read it and its ancestors: the reach is reset."""
        place = Namespace.parse(place)
        return self._with(scope=self.scope.model_copy(update={"place": place, "reach": Reach.of(place)}))

    def with_reach(self, reach: Reach | None) -> Self:
        """Tools that read and forget within a reach; None is every namespace."""
        return self._with(scope=self.scope.model_copy(update={"reach": reach}))

    def read_only(self) -> Self:
        """Tools without `memory_store` and `memory_forget`."""
        return self._with(scope=self.scope.model_copy(update={"writes": False}))

    def in_zone(self, zone: str) -> Self:
        """Tools that read `refers_to` as days of an IANA time zone.

        Raises:
            InvalidRequestError: There is no such zone.
        """
        TimeHint(date.min, date.min, zone)
        return self._with(zone=zone)

    def specs(self) -> list[ToolSpec]:
        """The tools offered, each with a schema of its own to keep."""
        return [
            ToolSpec(name=name, description=DESCRIPTIONS[name], parameters=self._schema(name))
            for name in ToolName
            if self._offers(name)
        ]

    async def call(self, name: str, args: object = None) -> dict[str, Any]:
        """Run a tool with a model's arguments, a JSON object or None; answers a JSON object.

        Raises:
            InvalidRequestError: There is no such tool, or the arguments are not its; the message
                names tool and field and may be shown to the model.  The engine was not called.
            UnsupportedError: These tools, or this engine, do not offer it.
            TinyMemoryError: Whatever the engine raises.
        """
        tool = _known(name)
        if not self._offers(tool):
            why = "these tools are read-only" if tool.is_write else "the engine serves no fetch"
            raise UnsupportedError(f"{tool}: {why}")
        arguments = read_arguments(tool, self._schema(tool), args)
        reads = ToolReads(self.engine, self.scope.reach, self.zone)
        match tool:
            case ToolName.RECALL:
                return await reads.recall(arguments)
            case ToolName.FETCH:
                return await reads.fetch(arguments)
            case ToolName.LIST:
                return await reads.list(arguments)
            case ToolName.GET:
                return await reads.get(arguments)
            case ToolName.EXPLORE:
                return await reads.explore(arguments)
            case ToolName.STORE:
                return await writing.store(self.engine, self.scope.place, arguments, clock=self._clock)
            case ToolName.FORGET:
                chosen = reads.filter(tool, arguments)
                return await writing.forget(self.engine, self.scope.reach, arguments, chosen)

    def _with(self, **changed: Any) -> Self:
        twin = copy(self)
        for name, value in changed.items():
            setattr(twin, name, value)
        return twin

    def _offers(self, tool: ToolName) -> bool:
        if tool.is_write:
            return self.scope.writes
        return tool is not ToolName.FETCH or bool(self.engine.descriptor.fetch_modes)

    def _schema(self, tool: ToolName) -> Schema:
        return schema_of(tool, self.engine.descriptor.fetch_modes)


def _known(name: str) -> ToolName:
    try:
        return ToolName(name)
    except ValueError:
        shown = str(name)[:40]
        raise InvalidRequestError(f"there is no tool `{shown}`; there are {', '.join(ToolName)}") from None
