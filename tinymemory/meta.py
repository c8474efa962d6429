"""What is known of an item beside its content, and the filter that selects by it."""

from enum import StrEnum
from typing import ClassVar

from pydantic import Field

from tinymemory.model import Instant, Value
from tinymemory.namespace import Namespace, Reach
from tinymemory.redaction import same_id


class ItemKind(StrEnum):
    """The three kinds of items, in the order they are listed everywhere."""

    DOCUMENT = "document"
    CONVERSATION = "conversation"
    LEARNING = "learning"


class SourceKind(StrEnum):
    """Where an item came from."""

    FOLDER = "folder"
    FILE = "file"
    LINK = "link"
    GITHUB = "github"
    RSS = "rss"
    COMPOSIO = "composio"
    CONVERSATION = "conversation"
    AGENT = "agent"
    IMPORT = "import"


class TurnRange(Value):
    """Which turns of its thread a conversation holds, both ends included."""

    first: int = Field(ge=0, strict=True)
    last: int = Field(ge=0, strict=True)


class ToolCallRef(Value):
    """A tool call by name and id; never its arguments or its result."""

    name: str
    id: str | None = None


class SourceRef(Value):
    """What an item came from: the kind of source, and which one."""

    kind: SourceKind = SourceKind.AGENT
    id: str | None = None


class ObservedActor(Value):
    """Who was observed; no part of an item's identity."""

    id: str
    name: str | None = None


class MemoryMeta(Value):
    """An item's metadata.  The order of the fields is that of the JSON, and so part of item ids."""

    omitted_when_empty: ClassVar = frozenset({"namespace", "tags"})

    namespace: Namespace = Namespace.ROOT
    workspace: str | None = None
    folder: str | None = None
    file_path: str | None = None
    language: str | None = None
    repo: str | None = None
    commit: str | None = None
    url: str | None = None
    thread_id: str | None = None
    turns: TurnRange | None = None
    agent_id: str | None = None
    tool_call: ToolCallRef | None = None
    source: SourceRef = SourceRef()
    tags: tuple[str, ...] = ()
    observed_at: Instant | None = None
    derive: bool | None = Field(default=None, strict=True)
    """False asks an engine to index the item and derive nothing from it; unset is the normal case."""
    observed_actor: ObservedActor | None = None


class MetaFilter(Value):
    """Selects items by kind and metadata: every set field must match, and none set matches all."""

    omitted_when_empty: ClassVar = frozenset({"kinds", "sources", "tags_any"})

    reach: Reach | None = None
    kinds: tuple[ItemKind, ...] = ()
    sources: tuple[SourceKind, ...] = ()
    tags_any: tuple[str, ...] = ()
    workspace: str | None = None
    folder: str | None = None
    """A path prefix on `/` borders; a trailing `/` is ignored."""
    file_path: str | None = None
    """A path prefix on `/` borders; a trailing `/` is ignored."""
    language: str | None = None
    repo: str | None = None
    commit: str | None = None
    url: str | None = None
    thread_id: str | None = None
    turns: TurnRange | None = None
    agent_id: str | None = None
    tool_call: str | None = None
    """The name of the tool."""
    source_id: str | None = None
    observed_after: Instant | None = None
    """Inclusive; an undated item never matches a window."""
    observed_before: Instant | None = None
    """Exclusive."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is set; a reach alone is something."""
        return self == _EMPTY

    def matches(self, kind: ItemKind, meta: MemoryMeta) -> bool:
        """Whether an item of this kind with this metadata is selected."""
        return (
            (not self.kinds or kind in self.kinds)
            and (self.reach is None or self.reach.admits(meta.namespace))
            and (not self.sources or meta.source.kind in self.sources)
            and (not self.tags_any or not set(self.tags_any).isdisjoint(meta.tags))
            and all(
                wanted is None or test(found, wanted)
                for wanted, found, test in (
                    (self.workspace, meta.workspace, _equal),
                    (self.folder, meta.folder, is_path_within),
                    (self.file_path, meta.file_path, is_path_within),
                    (self.language, meta.language, _equal),
                    (self.repo, meta.repo, _equal),
                    (self.commit, meta.commit, _equal),
                    (self.url, meta.url, _equal),
                    (self.thread_id, meta.thread_id, same_id),
                    (self.agent_id, meta.agent_id, same_id),
                    (self.source_id, meta.source.id, same_id),
                    (self.tool_call, meta.tool_call and meta.tool_call.name, _equal),
                )
            )
            and (self.turns is None or self.turns == meta.turns)
            and self._admits_time(meta)
        )

    def _admits_time(self, meta: MemoryMeta) -> bool:
        after, before = self.observed_after, self.observed_before
        if after is None and before is None:
            return True
        at = meta.observed_at
        return at is not None and (after is None or at >= after) and (before is None or at < before)


_EMPTY = MetaFilter()


def is_path_within(path: str | None, prefix: str) -> bool:
    """Whether a path is the prefix or below it by whole components; `/a/bc` is not below `/a/b`."""
    prefix = prefix.rstrip("/")
    return path is not None and (path == prefix or path.startswith(prefix + "/"))


def _equal(found: str | None, wanted: str) -> bool:
    return found == wanted
