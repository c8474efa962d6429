"""How a broken promise is told: which check found it, and what was wrong."""

from tinymemory.errors import TinyMemoryError


class ConformanceError(TinyMemoryError):
    """An engine broke a promise; `__cause__` is the engine's own error when there was one."""

    def __init__(self, check: str, detail: str) -> None:
        super().__init__(f"{check}: {detail}")
        # Unpickling calls `cls(*args)`.
        self.args = (check, detail)
        self.check = check
        """The name of the check."""
        self.detail = detail
        """What the engine did and what it should have done."""


class BrokenPromiseError(Exception):
    """Raised inside a check, which does not know its own name."""


def promise(kept: bool, detail: str) -> None:
    """Raise `BrokenPromiseError` unless the promise was kept."""
    if not kept:
        raise BrokenPromiseError(detail)
