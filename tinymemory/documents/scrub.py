"""Secrets and personal identifiers, replaced by marks that say what stood there.

Off unless asked for.  A mark such as `[email]` keeps a text readable; what is marked is decided by
shape and, where there is one, by a checksum, so that order numbers and dates stay.  Phone numbers
are libphonenumber's to tell, cards' and IBANs' checksums python-stdnum's.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

import phonenumbers
from stdnum import iban, luhn

from tinymemory.brain import BrainDocument
from tinymemory.items import Conversation, Document, DocumentBody, Learning

ScrubbableT = TypeVar("ScrubbableT", Document, Conversation, Learning, BrainDocument)


class Mark(StrEnum):
    """What stood where a mark is."""

    PRIVATE_KEY = "private-key"
    TOKEN = "token"  # the name of a mark
    JWT = "jwt"
    PASSWORD = "password"  # the name of a mark
    CARD = "card"
    IBAN = "iban"
    PHONE = "phone"
    EMAIL = "email"


@dataclass(frozen=True, slots=True)
class Scrubbed:
    """How many of each were replaced."""

    counts: Mapping[Mark, int] = field(default_factory=dict[Mark, int])

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.counts.values())


def scrub(item: ScrubbableT) -> tuple[ScrubbableT, Scrubbed]:
    """The item without secrets and personal identifiers in its texts and title, and what was replaced.

    Its metadata stays, and its id becomes another one.
    """
    counts: Counter[Mark] = Counter()

    def clean(text: str) -> str:
        return _scrub(text, counts)

    match item:
        case Document():
            body = item.body if item.body.text is None else DocumentBody(text=clean(item.body.text))
            scrubbed = item.model_copy(update={"body": body, "title": item.title and clean(item.title)})
        case BrainDocument():
            scrubbed = item.model_copy(
                update={"text": clean(item.text), "title": item.title and clean(item.title)}
            )
        case Conversation():
            turns = tuple(turn.model_copy(update={"text": clean(turn.text)}) for turn in item.turns)
            scrubbed = item.model_copy(update={"turns": turns})
        case Learning():
            scrubbed = item.model_copy(update={"text": clean(item.text)})
    return scrubbed, Scrubbed(dict(counts))


def scrub_text(text: str) -> tuple[str, Scrubbed]:
    """As `scrub`, for a bare text."""
    counts: Counter[Mark] = Counter()
    return _scrub(text, counts), Scrubbed(dict(counts))


def _scrub(text: str, counts: Counter[Mark]) -> str:
    for mark, spans in _DETECTORS:
        pieces: list[str] = []
        end = 0
        for start, stop in spans(text):
            pieces += [text[end:start], f"[{mark}]"]
            end = stop
            counts[mark] += 1
        text = "".join((*pieces, text[end:]))
    return text


def _matching(
    pattern: str, holds: Callable[[str], bool] = bool
) -> Callable[[str], Iterator[tuple[int, int]]]:
    compiled = re.compile(pattern)

    def spans(text: str) -> Iterator[tuple[int, int]]:
        for match in compiled.finditer(text):
            if holds(match["secret"]):
                yield match.span("secret")

    return spans


def _phones(text: str) -> Iterator[tuple[int, int]]:
    # Without a region only numbers with their country's code are found: in all other forms dates,
    # prices and order numbers look the same.
    for match in phonenumbers.PhoneNumberMatcher(text, None):
        yield match.start, match.end


def _is_card(text: str) -> bool:
    digits = "".join(filter(str.isdigit, text))
    return digits[0] in "23456" and len(set(digits)) > 1 and luhn.is_valid(digits)


def _is_password(text: str) -> bool:
    return len(text) >= 6 and text.lower() not in _NO_PASSWORDS


_NO_PASSWORDS = frozenset(
    {"string", "required", "optional", "secret", "changeme", "password", "hidden", "******"}
)

_DETECTORS: tuple[tuple[Mark, Callable[[str], Iterator[tuple[int, int]]]], ...] = (
    (
        Mark.PRIVATE_KEY,
        _matching(
            r"(?P<secret>-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----[\s\S]*?"
            r"(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|\Z))"
        ),
    ),
    (Mark.JWT, _matching(r"\b(?P<secret>eyJ[\w-]{8,}\.eyJ[\w-]{4,}\.[\w-]{8,})")),
    (
        Mark.TOKEN,
        _matching(
            r"\b(?P<secret>(?:sk|pk|rk)[-_](?:live|test|proj|ant)[-_][\w-]{12,}|sk-[A-Za-z0-9]{20,}"
            r"|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_\w{30,}|glpat-[\w-]{16,}|xox[abprs]-[\w-]{10,}"
            r"|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[\w-]{35}|npm_[A-Za-z0-9]{30,}|hf_[A-Za-z0-9]{30,}"
            r"|tiny_live_\w{8,}|SG\.[\w-]{16,}\.[\w-]{16,})(?!\w)"
        ),
    ),
    (Mark.TOKEN, _matching(r"(?i)\bbearer\s+(?P<secret>[\w.~+/=-]{16,})")),
    (
        Mark.PASSWORD,
        _matching(
            r"""(?i)\b(?:password|passwd|pwd|api[_-]?key|secret(?:[_-]?key)?|access[_-]?token|auth[_-]?token)\b"""
            r"""["']?\s*[:=]\s*["']?(?P<secret>[^\s"',;)<>\[\]]+)""",
            _is_password,
        ),
    ),
    (Mark.PASSWORD, _matching(r"\b[a-z][a-z0-9+.-]*://[^\s/:@]*:(?P<secret>[^\s/@]+)@")),
    (
        Mark.IBAN,
        _matching(r"\b(?P<secret>[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?)\b", iban.is_valid),
    ),
    (Mark.CARD, _matching(r"(?<![\d.-])(?P<secret>\d(?:[ -]?\d){12,18})(?![\d-]|\.\d)", _is_card)),
    (
        Mark.EMAIL,
        _matching(r"(?<![\w.+-])(?P<secret>[A-Za-z0-9][\w.+%-]*@(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,})(?![\w-])"),
    ),
    (Mark.PHONE, _phones),
)
