"""The pause a rate limit asks for, which every request of an engine keeps."""

import re
from collections.abc import Mapping

from tinymemory.engines.cortex.timing import Timing
from tinymemory.text import trimmed

# Longer than any second count that means something; `int` itself gives up at 4300 digits.
_SECONDS = re.compile(r"[0-9]{1,15}")


class Pause:
    """Until when no request leaves.  Shared by all tasks of an engine."""

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self._lifts_at = 0.0

    def ask(self, seconds: float | None) -> None:
        """Hold requests back for so many seconds, at most `Timing.pause_cap`; None and 0 ask for nothing."""
        if seconds:
            lift = self._timing.clock() + min(seconds, self._timing.pause_cap)
            self._lifts_at = max(self._lifts_at, lift)

    async def over(self) -> None:
        """Return once a request may leave."""
        while (left := self._lifts_at - self._timing.clock()) > 0:
            # Looked at again after waking: another answer may have moved the end meanwhile.
            await self._timing.sleep(left)


def seconds_asked_for(headers: Mapping[str, str]) -> float | None:
    """How long `Retry-After`, or else `RateLimit-Reset`, says to stay away; None when neither is a number."""
    for name in ("retry-after", "ratelimit-reset"):
        value = trimmed(headers.get(name, ""))
        if _SECONDS.fullmatch(value):
            return float(value)
    return None
