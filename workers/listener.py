"""What makes an immediate job immediate: a worker hears that something came due, and claims it.

The beat's sweep finds everything that is due, a minute later at the most.  An ingest need not wait
for it: whoever enqueues what is due at once says so on a channel, and each worker that listens
claims and rings.  A word nobody hears is no loss; the sweep comes anyway.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any

from redis.exceptions import RedisError

from workers.connection import close_redis, sync_redis
from workers.doorbell import Bell
from workers.ledger import Lease, LedgerOptions, SyncLedger
from workers.settings import WorkerSettings

CHANNEL = "due"
"""After the ledger's prefix; the message is the queue."""
_LISTEN_SECONDS = 1.0
_PAUSE_SECONDS = 1.0
_END_SECONDS = 5.0

log = logging.getLogger(__name__)


class Listener:
    """One worker's ear: a thread with a connection of its own, from `start` to `end`.

    As it begins and as it ends, `pass_on` rings elsewhere for what was rung for here and did not begin.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        bell: Bell,
        queues: Callable[[], Iterable[str]],
        pass_on: Callable[[], list[Lease]] = list,
    ) -> None:
        self._settings = settings
        self._bell = bell
        self._queues = queues
        self._pass_on = pass_on
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tinymemory-listener", daemon=True)

    def start(self) -> None:
        """Listen, having claimed what came due while nobody did."""
        self._thread.start()

    def end(self) -> None:
        """Stop, after what is being rung just now."""
        self._ended.set()
        self._thread.join(_END_SECONDS)

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self._listen()
            except (RedisError, OSError) as error:
                log.warning("not_listening", extra={"error": type(error).__name__})
                self._ended.wait(_PAUSE_SECONDS)

    def _listen(self) -> None:
        client: Any = sync_redis(self._settings.redis_url)
        ledger = SyncLedger(client, LedgerOptions.from_settings(self._settings))
        try:
            with client.pubsub(ignore_subscribe_messages=True) as ear:
                ear.subscribe(f"{self._settings.key_prefix}{CHANNEL}")
                self._give_back(ledger, self._pass_on())
                heard = set(self._queues())
                while not self._ended.is_set():
                    for queue in sorted(heard.intersection(self._queues())):
                        self._claim(ledger, queue)
                    heard = self._heard(ear)
                self._give_back(ledger, self._pass_on())
        finally:
            with contextlib.suppress(RedisError, OSError):
                close_redis(client)

    def _heard(self, ear: Any) -> set[str]:
        """The queues named since the last look; ten thousand words about one are one claim."""
        found: set[str] = set()
        message = ear.get_message(timeout=_LISTEN_SECONDS)
        while message is not None:
            found.add(message["data"])
            message = ear.get_message(timeout=0.0)
        return found

    def _claim(self, ledger: SyncLedger, queue: str) -> None:
        claimed = ledger.claim(queue)
        self._give_back(ledger, self._bell.ring(claimed.doorbells) if claimed.doorbells else [])

    def _give_back(self, ledger: SyncLedger, unrung: list[Lease]) -> None:
        if unrung:
            ledger.give_back(unrung)
