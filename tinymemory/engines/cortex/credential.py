"""What a request proves itself with: a key, or a source asked for a token on each attempt."""

import inspect
from collections import deque
from collections.abc import Awaitable, Callable
from typing import final

from tinymemory.engines.cortex.failures import masked
from tinymemory.engines.cortex.headers import is_header_value
from tinymemory.errors import ConfigError, UnauthorizedError
from tinymemory.text import is_blank, trimmed

BearerSource = Callable[[], str | Awaitable[str]]
"""Gives the token to send now; sync or async, called before every attempt."""


# Of a source that gives another token each time: more than are under way at once.
_REMEMBERED = 32


@final
class Credential:
    """A key or a source; neither is shown, pickled or logged."""

    __slots__ = ("_given", "_source")

    def __init__(self, source: str | BearerSource) -> None:
        """Keep a static key or a source of tokens.

        Raises:
            ConfigError: A static key is blank, or the source cannot be called.
        """
        if isinstance(source, str):
            if is_blank(source):
                raise ConfigError("the credential is blank: set the key, or give a function that returns it")
        elif not callable(source):  # pyright: ignore[reportUnnecessaryComparison]  # callers may be untyped
            raise ConfigError("the credential is neither a key nor a function that returns one")
        self._source = source
        self._given: deque[str] = deque(maxlen=_REMEMBERED)

    async def token(self) -> str:
        """The token to send on this attempt, trimmed.

        Raises:
            UnauthorizedError: The source failed, or what it gave cannot be sent.
        """
        token = trimmed(self._source) if isinstance(self._source, str) else await self._asked(self._source)
        if not token:
            raise UnauthorizedError("the credential source gave a blank token")
        if not is_header_value(token):
            raise UnauthorizedError("the credential holds a character that no header can carry")
        if token not in self._given:
            self._given.append(token)
        return token

    def masked(self, text: str) -> str:
        """Another party's words without the tokens given last, which it may repeat."""
        for token in self._given:
            text = masked(text, token)
        return text

    async def _asked(self, source: BearerSource) -> str:
        failed: str | None = None
        token: object = None
        try:
            token = source()
            if inspect.isawaitable(token):
                token = await token
        except Exception as error:  # whatever it was, nothing can be sent
            failed = type(error).__name__
        # Raised out here so that the error has no cause: the source's own may hold the token.
        if failed is not None:
            raise UnauthorizedError(f"the credential source failed with {failed}")
        return trimmed(token) if isinstance(token, str) else ""

    def __repr__(self) -> str:
        return "Credential(***)"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a credential cannot be pickled: build it in the process that uses it")
