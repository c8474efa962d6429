"""Calls to an OpenAI-compatible service: one JSON in, one JSON out, and its failures as the library's."""

import asyncio
import email.utils
import ipaddress
import weakref
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import httpx

from tinymemory.errors import (
    ConfigError,
    EngineError,
    InsufficientCreditsError,
    InvalidRequestError,
    NotFoundError,
    TinyMemoryError,
    UnauthorizedError,
    UnavailableError,
    UnreachableError,
)

OPENAI = "https://api.openai.com/v1"

_OUT_OF_CREDITS = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})
_CODE_LENGTH = 60


class ModelApi:
    """A service at a base URL.

    Raises:
        ConfigError: The URL is none, or would send the key in clear text to another machine.
    """

    def __init__(self, base_url: str, api_key: str | None, *, timeout: float) -> None:
        self._url = _checked(base_url, has_key=bool(api_key))
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._timeout = timeout
        # A client's connections belong to the event loop they were opened in.
        self._clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient] = (
            weakref.WeakKeyDictionary()
        )

    @property
    def is_openai(self) -> bool:
        """Whether it is OpenAI's own service, and not one that is like it."""
        return self._url.startswith(OPENAI)

    async def post(self, route: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Send JSON to a route, and read the JSON object it answers.

        No message holds what was sent, the key, or the service's own words, which may quote both.
        """
        host = httpx.URL(self._url).host
        with _translated(host):
            answer = await self._client().post(f"{self._url}/{route}", json=body, headers=self._headers)
        found = _json(answer)
        if not answer.is_success:
            raise _refusal(answer, found, f"{route} at {host} answered {answer.status_code}")
        if not found:
            raise EngineError(f"{route} at {host} answered no JSON object")
        return found

    async def aclose(self) -> None:
        """Close this event loop's connections; a later call opens them again."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    def _client(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            client = self._clients[loop] = httpx.AsyncClient(timeout=self._timeout)
        return client

    def __repr__(self) -> str:
        return f"ModelApi({httpx.URL(self._url).host!r})"


def _checked(base_url: str, *, has_key: bool) -> str:
    try:
        url = httpx.URL(base_url)
    except (httpx.InvalidURL, TypeError):
        url = None
    if url is None or url.scheme not in ("http", "https") or not url.host or url.userinfo:
        raise ConfigError("the model's base URL is an http or https URL without a user, such as " + OPENAI)
    if url.scheme == "http" and has_key and not _is_loopback(url.host):
        raise ConfigError("the model's base URL is http on another machine: use https, a key goes along")
    return str(url).rstrip("/")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


@contextmanager
def _translated(host: str) -> Generator[None]:
    try:
        yield
    except httpx.TimeoutException as error:
        raise UnavailableError(f"the model at {host} did not answer in time") from error
    except (httpx.ConnectError, httpx.ProxyError) as error:
        raise UnreachableError(f"the model at {host} was not reached") from error
    except httpx.HTTPError as error:
        raise UnavailableError(f"the model at {host} broke the connection off") from error


def _json(answer: httpx.Response) -> dict[str, Any]:
    try:
        found = answer.json()
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}  # pyright: ignore[reportUnknownVariableType]  # the wire


def _refusal(answer: httpx.Response, found: Mapping[str, Any], what: str) -> TinyMemoryError:
    code = _code(found)
    message = f"{what} ({code})" if code else what
    match answer.status_code:
        case 401 | 403:
            return UnauthorizedError(f"{message}: check the key")
        case 402:
            return InsufficientCreditsError(f"{message}: the account is out of credits")
        case 429 if code in _OUT_OF_CREDITS:
            return InsufficientCreditsError(f"{message}: the account is out of credits")
        case 429 | 408 | 409 | 425:
            return UnavailableError(message, retry_after=_retry_after(answer))
        case 404:
            return NotFoundError(f"{message}: check the base URL and the name of the model")
        case 400 | 413 | 422:
            return InvalidRequestError(message)
        case status if status >= 500:
            return UnavailableError(message, retry_after=_retry_after(answer))
        case _:
            return EngineError(message)


def _code(found: Mapping[str, Any]) -> str | None:
    error = found.get("error")
    if not isinstance(error, dict):
        return None
    named = error.get("code") or error.get("type")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # the wire
    if not isinstance(named, str):
        return None
    return "".join(letter for letter in named if letter.isalnum() or letter in "_-.")[:_CODE_LENGTH] or None


def _retry_after(answer: httpx.Response) -> float | None:
    """Seconds to stay away: a number, or until a date.

    Source: RFC 9110, section 10.2.3.
    """
    text = answer.headers.get("retry-after", "")
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = (email.utils.parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds()
        except (ValueError, TypeError):
            return None
    return max(0.0, seconds) if seconds < float("inf") else None
