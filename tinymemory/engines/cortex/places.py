"""Which scopes a call reads: those that are known without asking, and those the server lists."""

import logging
from collections.abc import Iterable, Sequence

from tinymemory.engines.cortex.log import MAX_SCOPES, Log
from tinymemory.engines.cortex.scope import Scope, node_path, parse_scope, scopes_of
from tinymemory.errors import EngineError
from tinymemory.meta import ItemKind
from tinymemory.namespace import Namespace, Reach

logger = logging.getLogger(__name__)


class Places:
    """The scopes of one log."""

    def __init__(self, log: Log) -> None:
        self._log = log

    async def readable(self, reach: Reach | None, kinds: Sequence[ItemKind]) -> list[Scope]:
        """The scopes a read with this reach looks into, in order; no reach reads everything.

        A node the reach names is read without asking whether anything was ever written there.
        """
        return [*self.leading(reach, kinds), *await self.following(reach, kinds)]

    def leading(self, reach: Reach | None, kinds: Sequence[ItemKind]) -> list[Scope]:
        """The first of the readable scopes: those before any that the server would have to list."""
        known = _known(reach, kinds)
        if reach is not None and not reach.descendants:
            return known
        # What is listed extends the reach's node, so of its kind it comes after what is known.
        return [scope for scope in known if scope.kind is known[0].kind]

    async def following(
        self, reach: Reach | None, kinds: Sequence[ItemKind], *, began: int | None = None
    ) -> list[Scope]:
        """The readable scopes after the leading ones; `began` as `Log.scopes` takes it."""
        if reach is not None and not reach.descendants:
            return []
        listed, is_truncated = await self._listed(Namespace.ROOT if reach is None else reach.at, began)
        if is_truncated:
            _warn_of_truncation()
        readable = {*_known(reach, kinds), *_admitted(listed, reach, kinds or tuple(ItemKind))}
        return sorted(readable.difference(self.leading(reach, kinds)))

    async def held(self, reach: Reach | None, kinds: Sequence[ItemKind] = ()) -> list[Scope]:
        """The registered scopes within a reach, in order; nothing is assumed."""
        kinds = kinds or tuple(ItemKind)
        at = Namespace.ROOT if reach is None else reach.at
        start = Namespace.ROOT if reach is None or reach.inherit else at
        listed, is_truncated = await self._listed(start)
        if is_truncated and start != at:
            # What lies at the node itself may be among the ones that were cut off.
            below, is_truncated = await self._listed(at)
            listed |= below
        if is_truncated:
            _warn_of_truncation()
        return sorted(_admitted(listed, reach, kinds))

    async def every(self) -> list[Scope]:
        """The root's scopes and all registered ones, in order.

        Raises:
            EngineError: There are more than a listing holds, so some would be missed.
        """
        listed, is_truncated = await self._listed(Namespace.ROOT)
        if is_truncated:
            raise EngineError(
                f"there are {MAX_SCOPES} scopes or more, and the server lists no more: not all can be seen"
            )
        return sorted(scopes_of(ItemKind, [Namespace.ROOT]) | listed)

    async def _listed(self, node: Namespace, began: int | None = None) -> tuple[set[Scope], bool]:
        listing = await self._log.scopes(node_path(node), began=began)
        scopes = {scope for path in listing.paths if (scope := parse_scope(path)) is not None}
        return {scope for scope in scopes if scope.namespace.is_within(node)}, listing.is_truncated


def _known(reach: Reach | None, kinds: Sequence[ItemKind]) -> list[Scope]:
    return sorted(scopes_of(kinds or tuple(ItemKind), [Namespace.ROOT] if reach is None else reach.nodes()))


def _admitted(scopes: Iterable[Scope], reach: Reach | None, kinds: Sequence[ItemKind]) -> set[Scope]:
    return {
        scope for scope in scopes if scope.kind in kinds and (reach is None or reach.admits(scope.namespace))
    }


def _warn_of_truncation() -> None:
    logger.warning("the server listed %d scopes or more; a read may miss some", MAX_SCOPES)
