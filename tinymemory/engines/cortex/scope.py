"""Where an item lies in CortexDB: one scope for each kind and namespace."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache, total_ordering

from tinymemory.errors import InvalidRequestError
from tinymemory.meta import ItemKind
from tinymemory.namespace import Namespace, Segment

ROOT_SEGMENT = "app:tinymemory"
"""The first segment of every scope of ours."""

_LEAVES = {
    ItemKind.DOCUMENT: "app:documents",
    ItemKind.CONVERSATION: "app:conversations",
    ItemKind.LEARNING: "app:learnings",
}
_KINDS = {leaf: kind for kind, leaf in _LEAVES.items()}
_RANKS = {kind: rank for rank, kind in enumerate(ItemKind)}


@total_ordering
@dataclass(frozen=True, slots=True)
class Scope:
    """A kind of item at a namespace; ordered by kind, then by namespace."""

    kind: ItemKind
    namespace: Namespace

    @property
    def path(self) -> str:
        """How a request names it, without any tenant in front."""
        return f"{node_path(self.namespace)}/{_LEAVES[self.kind]}"

    def __lt__(self, other: "Scope") -> bool:
        return (_RANKS[self.kind], self.namespace) < (_RANKS[other.kind], other.namespace)

    def __str__(self) -> str:
        return self.path


def node_path(namespace: Namespace) -> str:
    """The path above the three leaves of a namespace."""
    return "/".join((ROOT_SEGMENT, *map(str, namespace.segments)))


@lru_cache(maxsize=4096)
def parse_scope(path: str) -> Scope | None:
    """The scope a listed path names, whatever tenant stands in front; None when it is not one of ours."""
    segments = path.split("/")
    if ROOT_SEGMENT not in segments:
        return None
    *between, leaf = segments[segments.index(ROOT_SEGMENT) + 1 :] or [""]
    kind = _KINDS.get(leaf)
    if kind is None:
        return None
    try:
        return Scope(kind, Namespace(map(Segment.parse, between)))
    except InvalidRequestError:
        return None


def scopes_of(kinds: Iterable[ItemKind], namespaces: Iterable[Namespace]) -> set[Scope]:
    """Each kind at each namespace."""
    nodes = list(namespaces)
    return {Scope(kind, node) for kind in kinds for node in nodes}
