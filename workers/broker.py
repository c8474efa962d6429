"""The broker's address as Kombu wants it, from the form the settings have.

Both read `redis://`, `rediss://` and `amqp://` alike.  A Unix socket has another scheme in Kombu, and of
sentinels it takes one URL each, with the master's name beside them.

Source: https://docs.celeryq.dev/projects/kombu/en/stable/reference/kombu.transport.redis.html
"""

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from workers.connection import watched_by


@dataclass(frozen=True, slots=True)
class KombuBroker:
    """An address, and the transport options that belong to it."""

    url: str
    options: dict[str, Any] = field(default_factory=dict[str, Any])


def kombu_broker(url: str) -> KombuBroker:
    """The same broker in Kombu's terms.

    Raises:
        ConfigError: The URL names sentinels and is malformed.
    """
    if url.startswith("unix://"):
        return KombuBroker(_socket_url(url))
    if (watched := watched_by(url)) is not None:
        credential = _credential(watched.redis.get("username"), watched.redis.get("password"))
        database = watched.redis["db"]
        urls = (f"sentinel://{credential}{host}:{port}/{database}" for host, port in watched.hosts)
        # With a password the sentinels themselves want, or TLS to them.
        sentinel = {"sentinel_kwargs": watched.sentinel} if watched.sentinel else {}
        return KombuBroker(";".join(urls), {"master_name": watched.master, **sentinel})
    return KombuBroker(_with_password_before_host(url) if url.startswith("redis") else url)


def _with_password_before_host(url: str) -> str:
    # redis-py also reads `?password=`, which Kombu would hand to its connections twice.
    split = urlsplit(url)
    query = parse_qs(split.query)
    if "password" not in query:
        return url
    user, password = query.pop("username", [None])[0], query.pop("password")[0]
    host = split.netloc.rpartition("@")[2]
    return split._replace(
        netloc=f"{_credential(user, password)}{host}", query=urlencode(query, doseq=True)
    ).geturl()


def _socket_url(url: str) -> str:
    split = urlsplit(url)
    query = {name: values[0] for name, values in parse_qs(split.query).items()}
    credential = split.netloc.rpartition("@")[0]
    if "password" in query:
        credential = f"{quote(query.get('username', ''), safe='')}:{quote(query['password'], safe='')}"
    authority = f"{credential}@" if credential else ""
    return f"redis+socket://{authority}{split.path}?{urlencode({'virtual_host': query.get('db', '0')})}"


def _credential(user: str | None, password: str | None) -> str:
    if not (user or password):
        return ""
    return f"{quote(user or '', safe='')}:{quote(password or '', safe='')}@"
