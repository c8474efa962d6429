"""The ledger for a command or a script: opened by the settings, its failures in words."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from redis.exceptions import AuthenticationError, NoPermissionError, RedisError

from tinymemory.errors import ConfigError, TinyMemoryError, UnavailableError
from workers.connection import async_redis
from workers.ledger import Ledger, LedgerOptions
from workers.redaction import without_password
from workers.settings import WorkerSettings


@asynccontextmanager
async def open_ledger(settings: WorkerSettings) -> AsyncGenerator[Ledger]:
    """The ledger, while the block runs.

    Raises:
        UnavailableError: Redis does not answer; the message names it without its password.
        ConfigError: The URL is malformed, or Redis refuses its credential.
    """
    client = async_redis(settings.redis_url)
    try:
        yield Ledger(client, LedgerOptions.from_settings(settings))
    except RedisError as error:
        raise in_words(error, settings) from error
    finally:
        await client.aclose()


def in_words(error: RedisError, settings: WorkerSettings) -> TinyMemoryError:
    """What to tell a person of a ledger that failed: which it was, and what to do."""
    name = without_password(settings.redis_url)
    # Before it knows who is there, Redis refuses long commands in words of their own.
    if isinstance(error, AuthenticationError | NoPermissionError) or "unauthenticated" in str(error):
        return ConfigError(f"the ledger at {name} refuses the credential: correct it in TINYMEMORY_REDIS_URL")
    return UnavailableError(
        f"the ledger at {name} does not answer ({type(error).__name__}): "
        "start Redis, or name another with TINYMEMORY_REDIS_URL"
    )
