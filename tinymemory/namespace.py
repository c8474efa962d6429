"""Where memory lives: namespaces, the segments they are made of, and what a read admits of them."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache, total_ordering
from typing import Any, ClassVar, Self

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from tinymemory.errors import InvalidRequestError
from tinymemory.model import AsModel
from tinymemory.text import trimmed

MAX_DEPTH = 8
MAX_ID_LENGTH = 128

_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")
_HASHED_LENGTH = MAX_ID_LENGTH - len("-") - 8


class SegmentKind(StrEnum):
    """What a segment names, in the order namespaces sort by."""

    AGENT = "agent"
    TEAM = "team"
    USER = "user"
    WORKSPACE = "workspace"
    PROJECT = "project"
    SOURCE = "source"

    @property
    def path_name(self) -> str:
        """How a path spells it: `ws` for a workspace, the value for all others."""
        return "ws" if self is SegmentKind.WORKSPACE else self.value


_KIND_BY_PATH_NAME = {kind.path_name: kind for kind in SegmentKind}
_RANK = {kind: rank for rank, kind in enumerate(SegmentKind)}


@total_ordering
@dataclass(frozen=True, slots=True)
class Segment:
    """One step of a path, `kind:id`; the id is 1 to 128 of `A-Z a-z 0-9 _ -`."""

    kind: SegmentKind
    id: str

    def __post_init__(self) -> None:
        if not isinstance(self.kind, SegmentKind):  # pyright: ignore[reportUnnecessaryIsInstance]  # "agent" is welcome at run time
            object.__setattr__(self, "kind", _kind(self.kind))
        if not isinstance(self.id, str) or not _ID.fullmatch(self.id):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise InvalidRequestError(
                f"segment id {_shown(self.id)} must be 1 to {MAX_ID_LENGTH} characters of A-Z a-z 0-9 _ -"
            )

    @classmethod
    def parse(cls, text: str) -> Self:
        """Build from `kind:id`, a workspace being `ws`."""
        name, colon, id_ = text.partition(":")
        kind = _KIND_BY_PATH_NAME.get(name)
        if not colon or kind is None:
            raise InvalidRequestError(
                f"segment {_shown(text)} must be `kind:id` with a kind of {', '.join(_KIND_BY_PATH_NAME)}"
            )
        return cls(kind, id_)

    @classmethod
    def sanitized(cls, kind: SegmentKind, raw: str) -> Self:
        """Build from any text; never fails.

        A valid id stays.  Of any other each illegal character becomes `-`, the result is cut to 119
        characters, and the 32-bit FNV-1a hash of the raw text keeps different texts apart.
        """
        if _ID.fullmatch(raw):
            return cls(kind, raw)
        if not raw:
            return cls(kind, "_")
        return cls(kind, f"{_ILLEGAL.sub('-', raw)[:_HASHED_LENGTH]}-{_fnv1a(raw):08x}")

    def __str__(self) -> str:
        return f"{self.kind.path_name}:{self.id}"

    def __lt__(self, other: "Segment") -> bool:
        return self._order < other._order

    @property
    def _order(self) -> tuple[int, str]:
        return _RANK[self.kind], self.id

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return _text_schema(cls, cls.parse)


@total_ordering
@dataclass(frozen=True, slots=True, init=False)
class Namespace:
    """A path of at most 8 segments, written `team:acme/agent:writer`; the root is the empty path.

    Immutable, hashable, and ordered segment by segment, a prefix before what extends it.  As a
    pydantic field it is read from and written as its text.
    """

    ROOT: ClassVar["Namespace"]

    segments: tuple[Segment, ...]
    _text: str = field(repr=False, compare=False)

    def __init__(self, segments: Iterable[Segment] = ()) -> None:
        path = tuple(segments)
        if not all(isinstance(segment, Segment) for segment in path):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise InvalidRequestError("a namespace is made of segments; `Namespace.parse` reads a text")
        if len(path) > MAX_DEPTH:
            raise InvalidRequestError(f"a namespace has at most {MAX_DEPTH} segments, not {len(path)}")
        object.__setattr__(self, "segments", path)
        object.__setattr__(self, "_text", "/".join(map(str, path)) or "root")

    @classmethod
    def parse(cls, text: "str | Namespace") -> "Namespace":
        """Build from its text; `""` and `root` are the root, blanks around it are dropped.

        Raises:
            InvalidRequestError: A segment is malformed, or there are more than 8.
        """
        if isinstance(text, Namespace):
            return text
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise InvalidRequestError(f"a namespace is a text such as team:acme, not {type(text).__name__}")
        return _parsed(text)

    @property
    def parent(self) -> "Namespace | None":
        """One level up; None for the root."""
        return Namespace(self.segments[:-1]) if self.segments else None

    @property
    def depth(self) -> int:
        """The number of segments; 0 at the root."""
        return len(self.segments)

    @property
    def is_root(self) -> bool:
        """Whether this is the empty path."""
        return not self.segments

    def child(self, segment: Segment | str) -> "Namespace":
        """The namespace one level down."""
        below = segment if isinstance(segment, Segment) else Segment.parse(segment)
        return Namespace((*self.segments, below))

    def is_within(self, other: "Namespace | str") -> bool:
        """Whether this is `other` or lies below it."""
        other = Namespace.parse(other)
        return self.segments[: len(other.segments)] == other.segments

    def ancestors_and_self(self) -> list["Namespace"]:
        """The root first, this one last."""
        return [Namespace(self.segments[:depth]) for depth in range(len(self.segments) + 1)]

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Namespace({self._text!r})"

    def __lt__(self, other: "Namespace") -> bool:
        return self.segments < other.segments

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return _text_schema(cls, cls.parse)


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Namespace:
    path = trimmed(text)
    if path in ("", "root"):
        return Namespace()
    return Namespace(Segment.parse(part) for part in path.split("/"))


Namespace.ROOT = Namespace()


@dataclass(frozen=True, slots=True)
class Reach(AsModel):
    """What a read admits, seen from one namespace: itself, and its ancestors or what lies below.

    A sibling is never admitted.  `Reach()` reads only the root; no reach at all reads everything.
    """

    at: Namespace = Namespace.ROOT
    inherit: bool = True
    descendants: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", Namespace.parse(self.at))
        for name in ("inherit", "descendants"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidRequestError(f"`{name}` of a reach is true or false")

    @classmethod
    def of(cls, at: Namespace | str) -> Self:
        """The namespace and its ancestors."""
        return cls(Namespace.parse(at))

    @classmethod
    def exact(cls, at: Namespace | str) -> Self:
        """The namespace alone."""
        return cls(Namespace.parse(at), inherit=False)

    @classmethod
    def subtree(cls, at: Namespace | str) -> Self:
        """The namespace and everything below it."""
        return cls(Namespace.parse(at), inherit=False, descendants=True)

    def admits(self, ns: Namespace | str) -> bool:
        """Whether a read with this reach sees `ns`."""
        ns = Namespace.parse(ns)
        return (
            ns == self.at
            or (self.inherit and self.at.is_within(ns))
            or (self.descendants and ns.is_within(self.at))
        )

    def nodes(self) -> list[Namespace]:
        """`at` and, when inheriting, its ancestors, the root first; never what lies below."""
        return self.at.ancestors_and_self() if self.inherit else [self.at]

    def covers(self, other: "Reach") -> bool:
        """Whether every namespace `other` admits is admitted here, over all trees there can be."""
        # At the greatest depth nothing lies below, so descending adds nothing to be covered.
        if other.descendants and other.at.depth < MAX_DEPTH:
            below = self.descendants and other.at.is_within(self.at)
        else:
            below = self.admits(other.at)
        # Ancestors are a chain that ends at the root, and here it is admitted whole or cut off.
        return below and (not other.inherit or all(map(self.admits, other.nodes())))

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        fields = {
            "at": core_schema.typed_dict_field(handler.generate_schema(Namespace), required=False),
            "inherit": core_schema.typed_dict_field(core_schema.bool_schema(strict=True), required=False),
            "descendants": core_schema.typed_dict_field(core_schema.bool_schema(strict=True), required=False),
        }
        from_dict = core_schema.no_info_after_validator_function(
            lambda found: cls(**found), core_schema.typed_dict_schema(fields, extra_behavior="forbid")
        )
        return core_schema.json_or_python_schema(
            json_schema=from_dict,
            python_schema=core_schema.union_schema([core_schema.is_instance_schema(cls), from_dict]),
            serialization=core_schema.plain_serializer_function_ser_schema(_reach_json),
        )


def _reach_json(reach: Reach) -> dict[str, Any]:
    return {"at": str(reach.at), "inherit": reach.inherit, "descendants": reach.descendants}


def _text_schema(cls: type[Any], parse: Callable[[str], Any]) -> CoreSchema:
    from_text = core_schema.no_info_after_validator_function(parse, core_schema.str_schema())
    return core_schema.json_or_python_schema(
        json_schema=from_text,
        python_schema=core_schema.union_schema([core_schema.is_instance_schema(cls), from_text]),
        serialization=core_schema.to_string_ser_schema(),
    )


def _kind(value: object) -> SegmentKind:
    try:
        return _KIND_BY_PATH_NAME.get(str(value)) or SegmentKind(str(value))
    except ValueError:
        kinds = ", ".join(_KIND_BY_PATH_NAME)
        raise InvalidRequestError(f"segment kind {_shown(value)} is not one of {kinds}") from None


def _shown(value: object) -> str:
    text = str(value)
    return f"`{text if len(text) <= 40 else text[:40] + '…'}`"


def _fnv1a(text: str) -> int:
    hashed = 0x811C9DC5
    # A lone surrogate has no UTF-8 of its own; a name made from one must still not fail.
    for byte in text.encode("utf-8", "surrogatepass"):
        hashed = (hashed ^ byte) * 0x01000193 & 0xFFFFFFFF
    return hashed
