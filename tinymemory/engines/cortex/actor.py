"""Whom a CortexDB server takes the credential for, as `X-Cortex-Actor` has to repeat.

CortexDB refuses a minted token that arrives without its own actor.  The engine learns the actor
from the server, once, and again after a refusal.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tinymemory.engines.cortex.answers import fields, text
from tinymemory.engines.cortex.headers import is_header_value
from tinymemory.engines.cortex.together import LoopLock
from tinymemory.text import trimmed


@dataclass(frozen=True, slots=True)
class Known:
    """The server was asked and answered; a name of None means it names nobody."""

    name: str | None


Ask = Callable[[], Awaitable[Known | None]]
"""One `whoami`; None when it failed and nothing was learnt.  Never raises a library error."""


class Actor:
    """What has been learnt of the actor, shared by everything derived from one engine."""

    def __init__(self) -> None:
        self._known: Known | None = None
        self._asked = 0
        self._lock = LoopLock()

    async def name(self, ask: Ask) -> str | None:
        """The actor to send, or None to send no header; asks the server when nothing is known."""
        if self._known is None:
            await self._learn(ask)
        return self._known.name if self._known is not None else None

    def doubt(self) -> None:
        """A request was refused: the key may have been replaced, so ask anew."""
        self._known = None

    async def _learn(self, ask: Ask) -> None:
        before = self._asked
        async with self._lock.here():
            # Whoever waited here shares the answer that came meanwhile, even a failure.
            if self._asked == before:
                self._known = await ask()
                self._asked += 1


def caller(answer: object) -> Known:
    """The actor a `whoami` names, when it can be sent in a header."""
    name = trimmed(text(fields(answer).get("caller")) or "")
    return Known(name if name and is_header_value(name) else None)
