"""One engine's connections: opened on first use, and closed once.

Requests go to httpx's transport and not through its client.  The client adds what must not happen here
(cookies, redirects) and takes a quarter of a request's time for it.
"""

import asyncio
from functools import lru_cache
from urllib.request import getproxies, proxy_bypass

import httpx

from tinymemory.engines.cortex.endpoint import Endpoint
from tinymemory.engines.cortex.timing import Timing
from tinymemory.errors import ConfigError, EngineError

_LIMITS = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=30)


class Pool:
    """The connections behind an engine and everything derived from it."""

    def __init__(
        self, endpoint: Endpoint, timing: Timing, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._endpoint = endpoint
        # No read timeout: the whole exchange has a deadline, which `Transport` keeps.
        self._timeouts = httpx.Timeout(None, connect=timing.connect_timeout).as_dict()
        self._given = transport
        self._open: httpx.AsyncBaseTransport | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False

    def ensure_open(self) -> None:
        """Raise `EngineError` when the engine was closed."""
        if self._is_closed:
            raise EngineError("the engine is closed")

    async def send(
        self, method: str, url: str, headers: list[tuple[bytes, bytes]], content: bytes | None
    ) -> httpx.Response:
        """The head of the answer; its body is still to be read, and the answer to be closed."""
        request = httpx.Request(
            method, _parsed(url), headers=headers, content=content, extensions={"timeout": self._timeouts}
        )
        return await self._connections().handle_async_request(request)

    async def aclose(self) -> None:
        """Close the connections; more than once is fine."""
        self._is_closed = True
        connections, self._open = self._open, None
        if connections is not None and self._loop is asyncio.get_running_loop():
            await connections.aclose()

    def _connections(self) -> httpx.AsyncBaseTransport:
        self.ensure_open()
        loop = asyncio.get_running_loop()
        # Connections belong to the loop that opened them.  A host that calls `asyncio.run` for each
        # turn gets new ones; those of the loop that ended ended with it.
        if self._open is None or self._loop is not loop:
            self._open, self._loop = self._given or self._opened(), loop
        return self._open

    def _opened(self) -> httpx.AsyncBaseTransport:
        if not self._endpoint.is_encrypted:
            # In clear text to this machine, no proxy that the environment names may see the credential,
            # and reading the certificates of the world would take longer than the first request.
            return httpx.AsyncHTTPTransport(verify=False, trust_env=False, limits=_LIMITS)
        try:
            return httpx.AsyncHTTPTransport(limits=_LIMITS, proxy=_proxy(self._endpoint.hostname))
        except (ImportError, ValueError) as error:
            raise ConfigError("the proxy that the environment names for https cannot be used") from error


@lru_cache(maxsize=16)
def _parsed(url: str) -> httpx.URL:
    """An address taken apart; every write of an engine goes to one of a few."""
    return httpx.URL(url)


def _proxy(host: str) -> str | None:
    """The proxy the environment names for https to a host, as every other program there uses it."""
    proxies = getproxies()
    proxy = proxies.get("https") or proxies.get("all")
    if not proxy or proxy_bypass(host):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"
