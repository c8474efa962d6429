"""Time hints: whether the server takes them, and what is done about those it refuses."""

import logging
from collections.abc import Sequence
from enum import Enum, auto

from tinymemory.engines.cortex.log import Log
from tinymemory.engines.cortex.packs import Budget, Pack
from tinymemory.engines.cortex.scope import Scope
from tinymemory.engines.cortex.together import LoopLock
from tinymemory.errors import InvalidRequestError, TinyMemoryError
from tinymemory.query import TimeHint

logger = logging.getLogger(__name__)

CAPABILITY = "refers_to_v1"


class _State(Enum):
    UNKNOWN = auto()
    ON = auto()
    OFF = auto()


class HintGate:
    """Sends recalls, with their time hint while the server takes it.  Shared by all that one engine makes."""

    def __init__(self) -> None:
        self._state = _State.UNKNOWN
        self._lock = LoopLock()

    async def recall(
        self,
        log: Log,
        scope: Scope,
        query: str,
        budget: Budget,
        *,
        labels: Sequence[str],
        hint: TimeHint | None,
        began: int | None = None,
    ) -> Pack:
        """A scope's pack; a hint the server refuses costs one more request, and only once."""
        if hint is None or not await self._is_open(log):
            return await log.recall(scope, query, budget, labels=labels, began=began)
        try:
            return await log.recall(scope, query, budget, labels=labels, hint=hint, began=began)
        except InvalidRequestError:
            # If it is refused without the hint too, the hint was not what was wrong with it.
            pack = await log.recall(scope, query, budget, labels=labels, began=began)
        if self._state is not _State.OFF:
            self._state = _State.OFF
            logger.warning("the server refuses time hints: they are left out from now on")
        return pack

    async def _is_open(self, log: Log) -> bool:
        if self._state is _State.UNKNOWN and not log.surface.is_hosted:
            async with self._lock.here():
                if self._state is _State.UNKNOWN:
                    is_on = await _is_listed(log)
                    # A refusal that came meanwhile knows better.
                    if self._state is _State.UNKNOWN:
                        self._state = _State.ON if is_on else _State.OFF
        return self._state is not _State.OFF


async def _is_listed(log: Log) -> bool:
    try:
        return CAPABILITY in await log.capabilities()
    except TinyMemoryError:
        return True  # nothing speaks against it, and a refusal is survived
