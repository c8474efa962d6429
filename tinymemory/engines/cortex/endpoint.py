"""Where requests go: an endpoint that is safe to send a credential to."""

import ipaddress
import re
from dataclasses import dataclass
from typing import Self

import httpx

from tinymemory.errors import ConfigError
from tinymemory.text import trimmed

_HOST = re.compile(rb"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+")  # a name, or an address without its brackets
_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A validated base URL; routes are joined below its path."""

    base: str
    """Ends in `/`."""
    origin: str
    """Scheme, host and port: what a repr may show."""
    host: str
    """Host and port, for messages."""
    hostname: str
    """The host alone."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Build from a URL.

        Raises:
            ConfigError: It is no http(s) URL, sends the credential in clear text to another
                machine, or carries a user name, a query or a fragment.  The message names what to
                change and never shows the URL, which may hold a password.
        """
        url = _url(text)
        if url.userinfo:
            raise ConfigError("the endpoint holds a user name or a password: take it out of the URL")
        if "?" in text or "#" in text:
            raise ConfigError("the endpoint has a query or a fragment: leave only scheme, host and path")
        if url.scheme == "http" and not _is_loopback(url.host):
            raise ConfigError(
                "the endpoint is http and its host is not this machine: use https, "
                "because every request carries a credential"
            )
        host = f"[{url.host}]" if ":" in url.host else url.host
        port = url.port or _DEFAULT_PORTS[url.scheme]
        base = str(url)
        return cls(
            base=base if base.endswith("/") else base + "/",
            origin=f"{url.scheme}://{host}:{port}",
            host=url.netloc.decode("ascii"),
            hostname=url.host,
        )

    @property
    def is_encrypted(self) -> bool:
        """Whether requests travel over TLS."""
        return self.base.startswith("https:")

    def join(self, route: str) -> str:
        """The URL of a route, `v1/events`, below this endpoint's path."""
        return self.base + route


def _url(text: str) -> httpx.URL:
    try:
        url = httpx.URL(trimmed(text))
    except (httpx.InvalidURL, TypeError, ValueError):
        # Without the cause: it would show the URL.
        url = None
    if url is None:
        raise ConfigError("the endpoint is not a URL: write it like https://cortex.example.com")
    if url.scheme not in _DEFAULT_PORTS or not _HOST.fullmatch(url.raw_host):
        raise ConfigError(
            "the endpoint is not an http or https URL: write it like https://cortex.example.com"
        )
    if url.port is not None and not 0 < url.port < 65536:
        raise ConfigError("the endpoint's port is not within 1 to 65535")
    return url


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    # Not `is_loopback`: it also takes IPv4 addresses mapped into IPv6, which nothing needs.
    return address == ipaddress.IPv6Address("::1") or (
        isinstance(address, ipaddress.IPv4Address) and address in ipaddress.IPv4Network("127.0.0.0/8")
    )
