"""Whether Redis is known to be away, so that only one caller ever waits to find out."""

import contextlib
import logging
import threading
from collections.abc import Callable

FREE_SECONDS = 0.02
"""A failure quicker than this cost its caller nothing, and the next one may try again at once."""
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 1.0
JOIN_SECONDS = 1.0

log = logging.getLogger(__name__)


class Circuit:
    """Opened by a failure that took time; closed by a thread that asks until Redis is back.

    `ask` must do what the callers do, a write: a paused Redis goes on answering reads.  `closed` is
    called by the thread once Redis is back; it heeds `ended`.
    """

    def __init__(self, ask: Callable[[], object], *, closed: Callable[[], object]) -> None:
        self.is_open = False
        self._ask = ask
        self._closed = closed
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self.ended = threading.Event()

    def failed(self, seconds: float) -> None:
        """Tell that a call failed, and what it cost."""
        if seconds < FREE_SECONDS or self.ended.is_set():
            return
        with self._lock:
            if self.is_open:
                return
            self.is_open = True
        log.warning("redis_away")
        self._thread = threading.Thread(target=self._watch, name="tinymemory-redis-watch", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Call the thread home, and wait a moment for it."""
        self.ended.set()
        if self._thread is not None:
            self._thread.join(JOIN_SECONDS)

    def _watch(self) -> None:
        pause = FIRST_PAUSE
        while not self.ended.wait(pause):
            pause = min(2 * pause, LONGEST_PAUSE)
            with contextlib.suppress(Exception):
                self._ask()
                break
        self.is_open = False
        if not self.ended.is_set():
            log.warning("redis_back")
            self._closed()
