"""Clients of the ledger's Redis, made from the URLs the settings accept.

`redis://`, `rediss://` (TLS) and `unix://` are redis-py's own, with its query options; `sentinel://`
names the watchers of a replicated Redis: `sentinel://:secret@a:26379;b:26379/0?master=name`.

Source: https://redis.readthedocs.io/en/stable/connections.html
"""

from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import redis
from redis import Redis as SyncRedis
from redis.asyncio import Redis
from redis.asyncio.retry import Retry as AsyncRetry
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel

from tinymemory.errors import ConfigError

DEFAULT_TIMEOUT = 5.0
SENTINEL_PORT = 26379
MAX_CONNECTIONS = 1000
"""No limit of ours: who shares a client bounds what goes on at once."""


def sync_redis(url: str, *, timeout: float | None = DEFAULT_TIMEOUT) -> SyncRedis:
    """A client without a loop; it connects when first used.

    `timeout` is seconds, of connecting and of each answer, unless the URL says `socket_timeout` or
    `socket_connect_timeout`.  Nothing is tried twice: the callers know better what a retry is worth.

    Raises:
        ConfigError: The URL is malformed.
    """
    options: dict[str, Any] = {**_options(url, timeout), "retry": Retry(NoBackoff(), 0)}
    if (watched := watched_by(url)) is not None:
        sentinel = Sentinel(watched.hosts, sentinel_kwargs=options | watched.sentinel)
        return sentinel.master_for(watched.master, SyncRedis, **(options | watched.redis))  # pyright: ignore[reportUnknownMemberType]  # redis-py leaves **kwargs untyped
    try:
        client = SyncRedis.from_url(url, **options)  # pyright: ignore[reportUnknownMemberType]  # redis-py leaves **kwargs untyped
        _ensure_options(client.connection_pool)
    except (ValueError, TypeError) as error:
        raise _malformed() from error
    return client


def async_redis(url: str, *, timeout: float | None = DEFAULT_TIMEOUT) -> Redis:
    """As `sync_redis`, for one event loop."""
    options: dict[str, Any] = {**_options(url, timeout), "retry": AsyncRetry(NoBackoff(), 0)}
    if (watched := watched_by(url)) is not None:
        sentinel = AsyncSentinel(watched.hosts, sentinel_kwargs=options | watched.sentinel)
        return sentinel.master_for(watched.master, Redis, **(options | watched.redis))  # pyright: ignore[reportUnknownMemberType]  # redis-py leaves **kwargs untyped
    try:
        client = Redis.from_url(url, **options)  # pyright: ignore[reportUnknownMemberType]  # redis-py leaves **kwargs untyped
        _ensure_options(client.connection_pool)
    except (ValueError, TypeError) as error:
        raise _malformed() from error
    return client


def close_redis(client: SyncRedis) -> None:
    """Close a client and, where sentinels watch its server, the clients that ask them."""
    client.close()
    for sentinel in _sentinels(client.connection_pool):
        sentinel.close()


async def aclose_redis(client: Redis) -> None:
    """As `close_redis`."""
    await client.aclose()
    for sentinel in _sentinels(client.connection_pool):
        await sentinel.aclose()


def _sentinels(pool: Any) -> list[Any]:
    return [] if (manager := getattr(pool, "sentinel_manager", None)) is None else manager.sentinels


@dataclass(frozen=True, slots=True)
class Watched:
    """Sentinels, the name of the master they watch, and what each kind of client is told."""

    hosts: list[tuple[str, int]]
    master: str
    redis: dict[str, Any]
    sentinel: dict[str, Any]


# RESP2 needs no greeting, and telling the library's name takes two round trips: without them a new
# connection's first command is answered at once.
_QUIET = {"driver_info": None} if hasattr(redis, "DriverInfo") else {"lib_name": None, "lib_version": None}


def _options(url: str, timeout: float | None) -> dict[str, Any]:
    of_tcp = {} if url.startswith("unix:") else {"socket_connect_timeout": timeout, "socket_keepalive": True}
    return {
        **of_tcp,
        "decode_responses": True,
        "socket_timeout": timeout,
        "max_connections": MAX_CONNECTIONS,
        "protocol": 2,
        **_QUIET,
    }


def _ensure_options(pool: Any) -> None:
    # An option nobody knows would only show when the first connection is made.
    pool.connection_class(**pool.connection_kwargs)


def watched_by(url: str) -> Watched | None:
    """What a `sentinel://` URL says; None for any other.

    Raises:
        ConfigError: It is malformed.
    """
    scheme, _, rest = url.partition("://")
    if scheme != "sentinel":
        return None
    # Kombu repeats the scheme before each host.
    authority, _, tail = rest.replace("sentinel://", "").partition("/")
    split = urlsplit(f"sentinel://host/{tail}")
    query = {name: values[0] for name, values in parse_qs(split.query).items()}
    credential, hosts = "", list[tuple[str, int]]()
    for part in authority.split(";"):
        user, _, address = part.rpartition("@")
        credential = credential or user
        hosts.append(_host(address))
    master = query.get("master") or query.get("master_name")
    if not master:
        raise ConfigError(
            "`redis_url` names sentinels: add the master's name, as in sentinel://host:26379/0?master=name"
        )
    secure = {"ssl": True} if query.get("ssl", "").lower() in ("1", "true", "yes") else {}
    return Watched(
        hosts,
        master,
        {**_credential(credential), **secure, "db": _database(split.path)},
        {
            **secure,
            **{
                name: query[f"sentinel_{name}"]
                for name in ("username", "password")
                if f"sentinel_{name}" in query
            },
        },
    )


def _host(address: str) -> tuple[str, int]:
    try:
        split = urlsplit(f"//{address}")
        if not split.hostname:
            raise ValueError("no host")
        return split.hostname, split.port or SENTINEL_PORT
    except ValueError as error:
        raise _malformed() from error


def _credential(text: str) -> dict[str, str]:
    user, _, password = text.partition(":")
    named = {"username": unquote(user), "password": unquote(password)}
    return {name: value for name, value in named.items() if value}


def _database(path: str) -> int:
    try:
        return int(path.strip("/") or 0)
    except ValueError as error:
        raise _malformed() from error


def _malformed() -> ConfigError:
    # Without the URL: it may hold a password.
    return ConfigError(
        "`redis_url` must be redis://, rediss://, unix:// or sentinel://host:port;…/db?master=name"
    )
