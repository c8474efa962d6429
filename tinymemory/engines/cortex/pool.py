"""One engine's connections: opened on first use, closed once, and forgetful of cookies."""

import asyncio
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx

from tinymemory.engines.cortex.timing import Timing
from tinymemory.errors import EngineError


class Pool:
    """The HTTP client behind an engine and everything derived from it."""

    def __init__(
        self, *, is_encrypted: bool, timing: Timing, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._is_encrypted = is_encrypted
        self._timing = timing
        self._transport = transport
        self._client: httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False

    def client(self) -> httpx.AsyncClient:
        """The client of the running event loop.

        Raises:
            EngineError: The pool is closed.
        """
        if self._is_closed:
            raise EngineError("the engine is closed")
        loop = asyncio.get_running_loop()
        # Connections belong to the loop that opened them.  A host that calls `asyncio.run` for each
        # turn gets new ones; those of the loop that ended ended with it.
        if self._client is None or self._loop is not loop:
            self._client, self._loop = self._opened(), loop
        return self._client

    async def aclose(self) -> None:
        """Close the connections; more than once is fine."""
        self._is_closed = True
        client, self._client = self._client, None
        if client is not None and self._loop is asyncio.get_running_loop():
            await client.aclose()

    def _opened(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            transport=self._transport,
            # No read timeout: the whole exchange has a deadline, which `Transport` keeps.
            timeout=httpx.Timeout(None, connect=self._timing.connect_timeout),
            limits=httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=30),
            follow_redirects=False,
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            # In clear text to this machine, no proxy that the environment names may see the credential,
            # and reading the certificates of the world would take longer than the first request.
            trust_env=self._is_encrypted,
            verify=self._is_encrypted,
        )
