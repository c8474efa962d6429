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
        kinds = kinds or tuple(ItemKind)
        if reach is not None and not reach.descendants:
            return sorted(scopes_of(kinds, reach.nodes()))
        known = scopes_of(kinds, [Namespace.ROOT] if reach is None else reach.nodes())
        listed, is_truncated = await self._listed(Namespace.ROOT if reach is None else reach.at)
        if is_truncated:
            _warn_of_truncation()
        return sorted(known | _admitted(listed, reach, kinds))

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

    async def _listed(self, node: Namespace) -> tuple[set[Scope], bool]:
        listing = await self._log.scopes(node_path(node))
        scopes = {scope for path in listing.paths if (scope := parse_scope(path)) is not None}
        return {scope for scope in scopes if scope.namespace.is_within(node)}, listing.is_truncated


def _admitted(scopes: Iterable[Scope], reach: Reach | None, kinds: Sequence[ItemKind]) -> set[Scope]:
    return {
        scope for scope in scopes if scope.kind in kinds and (reach is None or reach.admits(scope.namespace))
    }


def _warn_of_truncation() -> None:
    logger.warning("the server listed %d scopes or more; a read may miss some", MAX_SCOPES)
