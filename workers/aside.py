"""Messages nothing can decode: set aside in Redis for an operator to look at, and counted."""

import json
import logging
from collections.abc import Mapping
from typing import Any

from redis import Redis
from redis.exceptions import RedisError

from workers.redaction import Redactor

KEPT = 100
"""Messages kept; what is older goes, and stays counted."""
_MOST_CHARACTERS = 2000

log = logging.getLogger(__name__)


class Aside:
    """A bounded list of undecodable messages in the ledger's Redis, the newest first."""

    def __init__(self, client: Redis, *, key_prefix: str, redactor: Redactor | None = None) -> None:
        self._client = client
        self._redactor = redactor or Redactor()
        self._key = f"{key_prefix}aside"
        self._count_key = f"{key_prefix}aside_total"

    def put(self, queue: str, reason: str, message: str) -> None:
        """Keep it.  A log line says that it was; its content stays in Redis, where the jobs are."""
        log.error("message_set_aside", extra={"queue": queue, "reason": reason})
        shown = self._redactor.text(message)[:_MOST_CHARACTERS]
        record = json.dumps({"queue": queue, "reason": reason, "message": shown})
        try:
            with self._client.pipeline() as pipe:  # pyright: ignore[reportUnknownMemberType]  # redis-py leaves **kwargs untyped
                pipe.lpush(self._key, record)
                pipe.ltrim(self._key, 0, KEPT - 1)
                pipe.incr(self._count_key)
                pipe.execute()
        except RedisError as error:
            log.warning("message_lost", extra={"queue": queue, "error": type(error).__name__})

    def total(self) -> int:
        """How many were ever set aside."""
        return int(self._client.get(self._count_key) or 0)  # pyright: ignore[reportArgumentType]  # redis-py types both kinds of client as one

    def newest(self, limit: int = KEPT) -> list[Mapping[str, Any]]:
        """What is kept: `queue`, `reason`, `message`."""
        records: Any = self._client.lrange(self._key, 0, limit - 1)
        return [json.loads(record) for record in records]
