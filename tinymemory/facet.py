"""The properties that stored items can be counted and narrowed by."""

from enum import StrEnum
from typing import Any

from tinymemory.errors import InvalidRequestError
from tinymemory.meta import ItemKind, MemoryMeta, MetaFilter, SourceKind
from tinymemory.namespace import Namespace, Reach


class Facet(StrEnum):
    """A property that stored items can be counted by."""

    KIND = "kind"
    SOURCE = "source"
    SOURCE_ID = "source_id"
    WORKSPACE = "workspace"
    FOLDER = "folder"
    FILE_PATH = "file_path"
    LANGUAGE = "language"
    REPO = "repo"
    URL = "url"
    THREAD = "thread"
    AGENT = "agent"
    TOOL_CALL = "tool_call"
    TAG = "tag"
    NAMESPACE = "namespace"

    def values(self, kind: ItemKind, meta: MemoryMeta) -> list[str]:
        """The distinct values an item has, in its own order; none when it has no such property."""
        match self:
            case Facet.KIND:
                return [kind.value]
            case Facet.TAG:
                return list(dict.fromkeys(meta.tags))
            case Facet.NAMESPACE:
                return [str(meta.namespace)]
            case Facet.SOURCE:
                return [meta.source.kind.value]
            case Facet.SOURCE_ID:
                return _at_most_one(meta.source.id)
            case Facet.TOOL_CALL:
                return _at_most_one(meta.tool_call and meta.tool_call.name)
            case Facet.THREAD:
                return _at_most_one(meta.thread_id)
            case Facet.AGENT:
                return _at_most_one(meta.agent_id)
            case _:
                return _at_most_one(getattr(meta, self.value))

    def narrow(self, filter: MetaFilter, value: str) -> MetaFilter:  # noqa: A002  # the wire's word
        """The filter that selects, of what it did, the items with this value.

        Raises:
            InvalidRequestError: The value is none the facet can have, or a namespace out of the
                filter's reach.
        """
        if self is Facet.NAMESPACE and filter.reach and not filter.reach.admits(Namespace.parse(value)):
            raise InvalidRequestError(f"the namespace `{value}` is out of the filter's reach")
        return filter.model_copy(update=self._selection(value))

    def _selection(self, value: str) -> dict[str, Any]:
        match self:
            case Facet.KIND:
                return {"kinds": (_member(ItemKind, value, "item kind"),)}
            case Facet.SOURCE:
                return {"sources": (_member(SourceKind, value, "source kind"),)}
            case Facet.TAG:
                return {"tags_any": (value,)}
            case Facet.NAMESPACE:
                return {"reach": Reach.exact(Namespace.parse(value))}
            case Facet.THREAD:
                return {"thread_id": value}
            case Facet.AGENT:
                return {"agent_id": value}
            case _:
                return {self.value: value}


def _at_most_one(value: str | None) -> list[str]:
    return [] if value is None else [value]


def _member(kind: type[ItemKind | SourceKind], value: str, what: str) -> ItemKind | SourceKind:
    try:
        return kind(value)
    except ValueError:
        raise InvalidRequestError(f"`{value[:40]}` is not a {what}") from None
