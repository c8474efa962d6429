"""What an engine proves itself with: a key, or a function that gives the current one."""

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import final

from tinymemory.errors import ConfigError
from tinymemory.text import is_blank

KeySource = Callable[[], str | Awaitable[str]]
"""Gives the key to use now; sync or async, called before every attempt."""


@final
class EngineCredential:
    """A key or its source, from a host's code or the environment; it is never shown nor pickled."""

    __slots__ = ("_value",)

    def __init__(self, value: str | KeySource) -> None:
        """Keep a key, or the function that gives it.

        Raises:
            ConfigError: The key is blank, or it is neither.
        """
        if isinstance(value, str) and is_blank(value):
            raise ConfigError("the key is blank: set it, or give a function that returns it")
        if not isinstance(value, str) and not callable(value):  # pyright: ignore[reportUnnecessaryComparison]  # callers may be untyped
            raise ConfigError("the credential is neither a key nor a function that returns one")
        self._value: str | KeySource = value

    @classmethod
    def static(cls, key: str) -> "EngineCredential":
        """A key that stays."""
        return cls(key)

    @classmethod
    def source(cls, source: KeySource) -> "EngineCredential":
        """A key that changes: `source` is asked before every attempt."""
        return cls(source)

    @classmethod
    def from_env(
        cls, variable: str, *, environ: Mapping[str, str] | None = None
    ) -> "EngineCredential | None":
        """The key in an environment variable; None when it is unset or blank."""
        key = (os.environ if environ is None else environ).get(variable, "")
        return None if is_blank(key) else cls(key)

    def reveal(self) -> str | KeySource:
        """The key or its source, for the engine that sends it."""
        return self._value

    def __repr__(self) -> str:
        return "EngineCredential(***)"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a credential cannot be pickled: build it in the process that uses it")


def key_variable(engine_id: str) -> str:
    """The environment variable an engine's key is read from unless its settings name another."""
    return f"TINYMEMORY_{engine_id.upper().replace('-', '_')}_API_KEY"
