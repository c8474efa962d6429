"""The claim each hosted write carries: a value of its own, never derived from what is written.

The memory API refuses every replay of a claim, so a key made from the content would refuse an
honest second write of the same words.
"""

import itertools
import secrets
import time


class Claims:
    """Hands out claims that no other engine, process or attempt has."""

    def __init__(self) -> None:
        self._prefix = f"tm-{secrets.token_hex(8)}"
        self._counter = itertools.count(1)

    def take(self) -> str:
        """A new claim."""
        return f"{self._prefix}-{time.time_ns()}-{next(self._counter)}"
