"""How long the engine waits for what, and how it tells the time."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Gaps, budgets and deadlines in seconds, and the clock and sleep behind them.

    The defaults suit a server across a network; a test suite is fast with polls and backoff of
    0.005 and budgets of 2.
    """

    backoff: float = 0.25
    """Before the second attempt of a read; doubles with each one after it."""
    poll_gap: float = 0.25
    """Between two looks for something written; on the hosted wire it doubles up to `poll_gap_cap`."""
    poll_gap_cap: float = 2.0
    visibility_budget: float = 30.0
    """How long a written event may take to be listed, and a lost one to be found again."""
    settle_budget: float = 10.0
    """How long a store waits for a ranked read to see what is listed already."""
    request_timeout: float = 60.0
    """For one whole exchange, the body included."""
    connect_timeout: float = 10.0
    pause_cap: float = 10.0
    """The longest that a rate limit holds requests back."""
    clock: Callable[[], float] = time.monotonic
    """Seconds that never run backwards."""
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
