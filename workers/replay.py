"""Bringing spooled jobs home: at the first contact with Redis, and at any later one that finds some."""

import logging
import threading
import time

from redis.exceptions import RedisError

from workers.circuit import JOIN_SECONDS
from workers.link import Link
from workers.spool import Spool

IN_A_CALL = 0.1
"""Seconds a host's call gives to the replay; a thread does what is left."""

log = logging.getLogger(__name__)


class Replayer:
    """Replays one spool over one link."""

    def __init__(self, spool: Spool, link: Link) -> None:
        self._spool = spool
        self._link = link
        self._seen = 0
        self._running = threading.Lock()
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()

    def is_due(self) -> bool:
        """Whether the folder changed since the last replay: one `stat`, so that each call can ask."""
        return self._spool.changed_at() != self._seen

    def replay(self, seconds: float = IN_A_CALL) -> None:
        """Replay for about that long, and leave the rest to a thread.  Raises nothing: lines stay."""
        ends_at = time.monotonic() + seconds
        # Before, not after: a line that another process spools meanwhile must make it due again.
        seen = self._spool.changed_at()
        try:
            replayed = self._spool.replay(
                self._link.send_patiently,
                go_on=lambda: time.monotonic() < ends_at and not self._ended.is_set(),
            )
        except (RedisError, OSError) as error:
            log.warning("spool_not_replayed", extra={"error": type(error).__name__})
            return
        if replayed is None:
            return
        if replayed.sent:
            log.info("spool_replayed", extra={"sent": replayed.sent})
        if replayed.finished:
            self._seen = seen
        elif not self._ended.is_set():
            self._replay_in_background()

    def end(self) -> None:
        """Call the thread home, and wait a moment for it."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(JOIN_SECONDS)

    def _replay_in_background(self) -> None:
        if self._running.acquire(blocking=False):
            self._thread = threading.Thread(target=self._replay_all, name="tinymemory-replay", daemon=True)
            self._thread.start()

    def _replay_all(self) -> None:
        try:
            self.replay(float("inf"))
        finally:
            self._running.release()
