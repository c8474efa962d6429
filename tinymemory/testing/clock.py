"""The clock a loopback server lives by: key lives, pack lives, rate windows, extraction."""

import time
from datetime import UTC, datetime, timedelta

STARTS_AT = datetime(2026, 9, 2, tzinfo=UTC)
"""The wall time every server starts at, so that what it stamps is the same in every run."""


class Clock:
    """Runs with real time, from a fixed wall time on, and can be put forward."""

    def __init__(self, starts_at: datetime = STARTS_AT) -> None:
        self._starts_at = starts_at
        self._zero = time.monotonic()
        self._skipped = 0.0

    def seconds(self) -> float:
        """Seconds since the clock was made, skipped ones included."""
        return time.monotonic() - self._zero + self._skipped

    def now(self) -> datetime:
        """The wall time, in UTC."""
        return self._starts_at + timedelta(seconds=self.seconds())

    def advance(self, seconds: float) -> None:
        """Put the clock forward.

        Raises:
            ValueError: `seconds` is negative; time does not go back.
        """
        if seconds < 0:
            raise ValueError(f"a clock cannot go back by {-seconds} s")
        self._skipped += seconds


class ManualClock(Clock):
    """Stands still but for `advance`."""

    def seconds(self) -> float:
        """Seconds it was put forward by."""
        return self._skipped
