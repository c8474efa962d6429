"""The beat: RedBeat on the ledger's Redis, with a leadership that lapses without ending anybody.

RedBeat keeps in Redis when each entry last ran, so that a beat that restarts, or takes over, goes on
where the last one was.  Its own lock is not used: it makes the beat exit when the lock is lost, and
stand still for ever when Redis is away at start-up.

Source: https://redbeat.readthedocs.io/en/latest/
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# Celery and RedBeat ship no types; what is taken from them is narrowed where it leaves this module.

import contextlib
import logging
from typing import Any

from celery import Celery
from kombu.utils.objects import cached_property
from redbeat.schedulers import REDBEAT_REDIS_KEY, RedBeatScheduler
from redis.exceptions import LockError, RedisError

from scheduler.schedule import leadership_seconds
from workers.connection import sync_redis
from workers.doorbell import linked_producer, queue_depth
from workers.routing import CONTROL_QUEUE
from workers.settings import WorkerSettings
from workers.vitals import Vitals

MOST_ASKED = 8
"""Periodic messages that may wait at once; with no worker to take them, more would say nothing more."""
_AGAIN_SECONDS = 1.0

log = logging.getLogger(__name__)


class SafeScheduler(RedBeatScheduler):
    """Asks for what is due while it leads, and stands by while another beat does."""

    def __init__(self, app: Celery, **options: Any) -> None:
        settings = WorkerSettings.load()
        client = sync_redis(settings.redis_url)
        setattr(app, REDBEAT_REDIS_KEY, client)
        self._client = client
        seconds = leadership_seconds(settings)
        self._leadership = client.lock(
            f"{settings.key_prefix}beat:leader", timeout=seconds, thread_local=False
        )
        self._standby = seconds / 3
        self._vitals = Vitals(client, key_prefix=settings.key_prefix)
        super().__init__(app, **options)

    def setup_schedule(self) -> None:
        """Nothing yet: Redis may be away, and `tick` does it when there is need."""

    def tick(self, *_: Any, **__: Any) -> float:
        """Ask for what is due; the seconds until there may be more.  Never raises for Redis's sake."""
        try:
            # RedBeat keeps times, of which another machine's beat, or a clock put right, must make sense.
            self.app.go_by(self._vitals.now())
            leads = self._leads()
            self._vitals.beat_ticked(leads=leads)
            if not leads:
                return self._standby
            # Entries that are gone went with the whole of Redis.
            if not self._client.exists(self.app.redbeat_conf.schedule_key):
                super().setup_schedule()
            return min(super().tick(), self._standby)
        except RedisError as error:
            log.warning("beat_without_redis", extra={"error": type(error).__name__})
            return _AGAIN_SECONDS

    def apply_async(self, entry: Any, producer: Any = None, advance: bool = True, **options: Any) -> Any:
        """Publish an entry's message, unless those published before still wait for a worker.

        Not with Celery's own producer, which the beat would keep for good, broken or not.
        """
        with linked_producer(self.app) as linked:
            if queue_depth(linked.connection, CONTROL_QUEUE) >= MOST_ASKED:
                log.warning("nobody_takes_periodic_tasks", extra={"entry": entry.name})
                if advance:
                    self.reserve(entry)
                return None
            return super().apply_async(entry, producer=linked, advance=advance, **options)

    @cached_property
    def _maybe_due_kwargs(self) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        """Let another beat lead at once."""
        with contextlib.suppress(LockError, RedisError):
            self._vitals.beat_ended()
            self._leadership.release()
        super().close()

    def _leads(self) -> bool:
        with contextlib.suppress(LockError):
            return bool(self._leadership.reacquire())
        return bool(self._leadership.acquire(blocking=False))
