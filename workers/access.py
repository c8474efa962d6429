"""The ledger for a command or a script: opened by the settings, its failures in words."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from redis.exceptions import RedisError

from tinymemory.errors import UnavailableError
from workers.connection import async_redis
from workers.ledger import Ledger, LedgerOptions
from workers.redaction import without_password
from workers.settings import WorkerSettings


@asynccontextmanager
async def open_ledger(settings: WorkerSettings) -> AsyncGenerator[Ledger]:
    """The ledger, while the block runs.

    Raises:
        UnavailableError: Redis does not answer; the message names it without its password.
        ConfigError: The URL is malformed.
    """
    client = async_redis(settings.redis_url)
    try:
        yield Ledger(client, LedgerOptions.from_settings(settings))
    except RedisError as error:
        raise UnavailableError(
            f"the ledger at {without_password(settings.redis_url)} does not answer "
            f"({type(error).__name__}): start Redis, or name another with TINYMEMORY_REDIS_URL"
        ) from error
    finally:
        await client.aclose()
