"""What must not be kept: credentials in errors, and which values of the settings are secrets.

Whatever a third party says may quote the request it refused, so every text from outside goes
through a `Redactor` before the ledger, a log or a result sees it.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from urllib.parse import quote, unquote

from pydantic import JsonValue

from tinymemory.config import MemoryConfig
from tinymemory.errors import ConfigError
from workers.ledger.outcomes import JobError
from workers.settings import EngineSettings, WorkerSettings

HIDDEN = "***"
MAX_MESSAGE = 500
"""Characters of an error's message that are kept."""

_SHORT = 6
_CREDENTIAL = (
    r"(?:api[_-]?|access[_-]?|private[_-]?|secret[_-]?|account[_-]?|signing[_-]?)keys?"
    r"|apikey|auth|token|secret|password|passwd|passphrase|pwd|credentials?|cookie"
    r"|signature|sig|dsn"
)
_VALUE = r"""(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^\s,;&"'<>)}\]]+)"""
_NAMED = re.compile(
    rf"(?i:(?:^|[_\W])(?:{_CREDENTIAL}|authorization|key)$)|[a-z](?:Key|Token|Secret|Password)$"
)
_RULES = (
    # Up to the last `@`, since a password may hold what it should have quoted.
    (
        re.compile(r"""(\b[a-z][a-z0-9+.-]*://)[^\s/"'<>@:]*(?::[^\s"'<>]*)?@""", re.IGNORECASE),
        rf"\1{HIDDEN}@",
    ),
    (re.compile(r"(?i)\b(authorization[\"']?\s*[:=]\s*[\"']?(?:[a-z]+\s+)?)[^\s\"',;]+"), rf"\1{HIDDEN}"),
    (re.compile(r"(?i)\b(bearer(?:\s+token)?[\s:=]+)[^\s\"',;]+"), rf"\1{HIDDEN}"),
    (re.compile(rf"(?i)((?:{_CREDENTIAL})[\"']?\s*[:=]\s*){_VALUE}"), rf"\1{HIDDEN}"),
    (re.compile(rf"(?i)(key=|[\"']key[\"']\s*[:=]\s*){_VALUE}"), rf"\1{HIDDEN}"),
    # Tokens that can be told by their looks: JSON web tokens, and the prefixes vendors give theirs.
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*"), HIDDEN),
    (re.compile(r"\b(?:sk|pk|rk|ghp|gho|ghs|glpat|xox[abprs]|AKIA|AIza)[-_]?[A-Za-z0-9][\w-]{14,}"), HIDDEN),
)
_URL_PASSWORD = re.compile(r"://[^\s/@:]*:([^\s]*)@")


class Redactor:
    """Takes credentials out of texts: those it was told of, and whatever looks like one."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        spellings = {form for secret in secrets for form in (secret, quote(secret, safe=""), unquote(secret))}
        # The longest first: one secret may begin another.
        known = "|".join(map(_exactly, sorted(spellings - {""}, key=len, reverse=True)))
        self._known = re.compile(known) if known else None

    @classmethod
    def from_settings(cls, settings: WorkerSettings) -> "Redactor":
        """One that knows every secret of the settings, and of the environment keys are read from."""
        return cls(secrets_of(settings) | secrets_in(settings, os.environ))

    def text(self, text: str) -> str:
        """The text with `***` where a credential was; doing it twice changes nothing."""
        if self._known is not None:
            text = self._known.sub(HIDDEN, text)
        for pattern, replacement in _RULES:
            text = pattern.sub(replacement, text)
        return text

    def error(self, error: BaseException) -> JobError:
        """What may be kept of an error: its class, and one line of its message, cut to 500 characters."""
        # Cut last: half a credential is told by no rule.
        message = " ".join(self.text(str(error)).split()) or type(error).__name__
        return JobError(type(error).__name__, _cut(message))


def secrets_of(settings: WorkerSettings) -> frozenset[str]:
    """The engines' keys, the passwords in the URLs, and what is named like a credential in the profiles."""
    profiles = settings.profiles.values()
    urls = map(_passwords, (settings.redis_url, settings.broker_url))
    return frozenset(chain(_engine_keys(profiles), *urls, *map(_secrets, profiles)))


def _engine_keys(profiles: Iterable[EngineSettings]) -> frozenset[str]:
    try:
        configured = MemoryConfig.from_env()
    except ConfigError:
        configured = MemoryConfig()  # whoever builds an engine says what is wrong
    named = (profile.get("key_env") for profile in profiles)
    return configured.keys(also=[name for name in named if isinstance(name, str)])


def secrets_in(settings: WorkerSettings, environ: Mapping[str, str]) -> frozenset[str]:
    """What the environment holds under a name like `…_API_KEY`, or one a profile's `key_env` names."""
    named = {str(profile["key_env"]) for profile in settings.profiles.values() if "key_env" in profile}
    found = (value for name, value in environ.items() if name in named or _NAMED.search(name))
    return frozenset(value for value in found if len(value) >= _SHORT)


def without_password(url: str) -> str:
    """A URL that may be shown."""
    return Redactor().text(url)


def _secrets(value: JsonValue, name: str = "") -> Iterator[str]:
    match value:
        case dict():
            for key, item in value.items():
                yield from _secrets(item, key)
        case list():
            for item in value:
                yield from _secrets(item, name)
        case str():
            yield from [value] if _NAMED.search(name) else _passwords(value)
        case _:
            pass


def _passwords(url: str) -> Iterator[str]:
    for part in url.split(";"):
        if found := _URL_PASSWORD.search(part):
            yield found[1]
    yield from re.findall(r"[?&](?:\w+_)?password=([^&]+)", url)


def _exactly(secret: str) -> str:
    # A short one is likely to be a part of words.
    return rf"(?<!\w){re.escape(secret)}(?!\w)" if len(secret) < _SHORT else re.escape(secret)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE else text[: MAX_MESSAGE - 1] + "…"
