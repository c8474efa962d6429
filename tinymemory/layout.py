"""Where memory lies in the tree: the brain by source, conversations by agent, learnings at the root."""

import unicodedata
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from tinymemory.errors import InvalidRequestError
from tinymemory.meta import ItemKind, MetaFilter, SourceKind
from tinymemory.namespace import MAX_DEPTH, Namespace, Reach, Segment, SegmentKind
from tinymemory.text import is_blank

MAX_ROOT_DEPTH = MAX_DEPTH - 1
"""One level stays free for the agents and sources below the root."""

_KNOWN_SOURCES = frozenset({"pdf", "markdown", "notion", "github", "web", "files"})
_OTHER_SPELLINGS = {"md": "markdown"}
_FILES = frozenset({"pdf", "markdown", "files"})


@dataclass(frozen=True, slots=True, order=True)
class BrainSource:
    """What kind of place documents come from: `pdf markdown notion github web files`, or any other id.

    The known ids are read whatever their case, and `md` as `markdown`; any other id is kept as
    given.  A plain string does wherever a source is expected; as a pydantic field it is one in JSON.

    Raises:
        InvalidRequestError: The id is blank.
    """

    PDF: ClassVar["BrainSource"]
    MARKDOWN: ClassVar["BrainSource"]
    NOTION: ClassVar["BrainSource"]
    GITHUB: ClassVar["BrainSource"]
    WEB: ClassVar["BrainSource"]
    FILES: ClassVar["BrainSource"]

    id: str

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or is_blank(self.id):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise InvalidRequestError("a brain source is a text such as pdf, and not blank")
        folded = self.id.lower()
        folded = _OTHER_SPELLINGS.get(folded, folded)
        if folded in _KNOWN_SOURCES:
            object.__setattr__(self, "id", folded)

    @classmethod
    def parse(cls, source: "BrainSource | str") -> "BrainSource":
        """The source itself, or the one a string names."""
        return source if isinstance(source, BrainSource) else cls(source)

    @property
    def source_kind(self) -> SourceKind:
        """`file` for what comes as files (pdf, markdown, files), `import` for all else."""
        return SourceKind.FILE if self.id in _FILES else SourceKind.IMPORT

    def __str__(self) -> str:
        return self.id

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from_text = core_schema.no_info_after_validator_function(cls, core_schema.str_schema())
        return core_schema.json_or_python_schema(
            json_schema=from_text,
            python_schema=core_schema.union_schema([core_schema.is_instance_schema(cls), from_text]),
            serialization=core_schema.to_string_ser_schema(),
        )


for _id in _KNOWN_SOURCES:
    setattr(BrainSource, _id.upper(), BrainSource(_id))


@dataclass(frozen=True, slots=True)
class MemoryLayout:
    """The standard tree below one root; one root per tenant.

        root                shared learnings
        ├── source:pdf …    the brain: documents, by source
        └── agent:<id> …    one agent's conversations, a turn an item

    Ids become segments by `Segment.sanitized`, in Unicode's composed form (NFC): two spellings of
    one id that look the same are one scope.  Case and blanks keep ids apart.

    Raises:
        InvalidRequestError: The root does not parse, or lies more than 7 deep.
    """

    root: Namespace = Namespace.ROOT
    """Given as a `Namespace` or its text."""

    def __post_init__(self) -> None:
        root = Namespace.parse(self.root)
        if root.depth > MAX_ROOT_DEPTH:
            raise InvalidRequestError(
                f"the root of a layout is at most {MAX_ROOT_DEPTH} segments deep, not {root.depth}"
            )
        object.__setattr__(self, "root", root)

    @property
    def learnings(self) -> Namespace:
        """Where shared learnings lie: the root itself."""
        return self.root

    def brain(self, source: BrainSource | str) -> Namespace:
        """Where the documents of a source lie: `root/source:<id>`."""
        return self.root.child(_segment(SegmentKind.SOURCE, BrainSource.parse(source).id))

    def brain_collection(self, source: BrainSource | str, name: str) -> Namespace:
        """A part of a source: `root/source:<id>/project:<name>`.

        Raises:
            InvalidRequestError: The root is 7 deep, which leaves no room.
        """
        return self.brain(source).child(_segment(SegmentKind.PROJECT, name))

    def conversations(self, agent_id: str) -> Namespace:
        """Where an agent's turns lie: `root/agent:<id>`."""
        return self.root.child(_segment(SegmentKind.AGENT, agent_id))

    def brain_filter(self, source: BrainSource | str | None = None) -> MetaFilter:
        """Documents, of one source or of all."""
        at = self.root if source is None else self.brain(source)
        return MetaFilter(reach=Reach.subtree(at), kinds=(ItemKind.DOCUMENT,))

    def conversations_filter(self, agent_id: str | None = None) -> MetaFilter:
        """Conversations, of one agent or of all."""
        at = self.root if agent_id is None else self.conversations(agent_id)
        return MetaFilter(reach=Reach.subtree(at), kinds=(ItemKind.CONVERSATION,))

    def learnings_filter(self) -> MetaFilter:
        """Learnings, wherever below the root they were stored or built."""
        return MetaFilter(reach=Reach.subtree(self.root), kinds=(ItemKind.LEARNING,))

    def holistic_filter(self) -> MetaFilter:
        """Everything below the root."""
        return MetaFilter(reach=Reach.subtree(self.root))


def composed(id_: str) -> str:
    """The id in Unicode's composed form (NFC): what looks the same is the same."""
    return unicodedata.normalize("NFC", id_)


def _segment(kind: SegmentKind, raw: str) -> Segment:
    return Segment.sanitized(kind, composed(raw))
