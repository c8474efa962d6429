"""Bringing spooled jobs home: at the first contact with Redis, and at any later one that finds some."""

import logging
import threading
import time

from redis.exceptions import RedisError

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
        self._thread = threading.Lock()

    def is_due(self) -> bool:
        """Whether the folder changed since the last replay: one `stat`, so that each call can ask."""
        return self._spool.changed_at() != self._seen

    def replay(self, seconds: float = IN_A_CALL) -> None:
        """Replay for about that long, and leave the rest to a thread.  Raises nothing: lines stay."""
        ends_at = time.monotonic() + seconds
        # Before, not after: a line that another process spools meanwhile must make it due again.
        seen = self._spool.changed_at()
        try:
            replayed = self._spool.replay(self._link.send_patiently, go_on=lambda: time.monotonic() < ends_at)
        except (RedisError, OSError) as error:
            log.warning("spool_not_replayed", extra={"error": type(error).__name__})
            return
        if replayed is None:
            return
        if replayed.sent:
            log.info("spool_replayed", extra={"sent": replayed.sent})
        if replayed.finished:
            self._seen = seen
        else:
            self.replay_in_background()

    def replay_in_background(self) -> None:
        """Replay all there is in a thread; one at a time."""
        if self._thread.acquire(blocking=False):
            threading.Thread(target=self._replay_all, name="tinymemory-replay", daemon=True).start()

    def _replay_all(self) -> None:
        try:
            self.replay(float("inf"))
        finally:
            self._thread.release()
