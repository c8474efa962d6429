"""A round outside any worker: for a cron, and for whoever has no beat."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from workers.app import app
from workers.connection import aclose_redis, async_redis
from workers.doorbell import BrokerBell
from workers.engines import EngineCache
from workers.factory import engine_maker
from workers.ledger import Ledger, LedgerOptions
from workers.redaction import Redactor
from workers.round import Round
from workers.settings import WorkerSettings


@asynccontextmanager
async def open_round(settings: WorkerSettings) -> AsyncGenerator[Round]:
    """A round on this process's own clients, while the block runs."""
    client = async_redis(settings.redis_url)
    engines = EngineCache(engine_maker(settings))
    try:
        yield Round(
            Ledger(client, LedgerOptions.from_settings(settings)),
            BrokerBell(app, redis_is_broker=settings.redis_is_broker),
            engines,
            settings=settings,
            redactor=Redactor.from_settings(settings),
        )
    finally:
        await engines.aclose()
        await aclose_redis(client)
