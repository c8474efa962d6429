"""How a hit reads in a prompt: one bullet, on one line, of a bounded length."""

import re

from tinymemory.meta import ItemKind
from tinymemory.query import Hit
from tinymemory.text import WHITE_SPACE, trimmed

MAX_BULLET = 600

_BLANKS = re.compile(f"[{re.escape(WHITE_SPACE)}]+")
_TITLE = re.compile(r"# ([^\n]*)(?:\n|\Z)")
_ATX_HEADING = re.compile(r"[ ]{0,3}#{1,6}[ \t]+([^\n]*?)(?:[ \t]+#+)?[ \t]*(?:\n|\Z)")
_SETEXT_HEADING = re.compile(r"([^\n]+)\n[ ]{0,3}(?:=+|-+)[ \t]*(?:\n|\Z)")


def bullet(hit: Hit) -> str:
    """A hit's text on one line, at most 600 characters and `…`; empty when it has none.

    A document with a title reads `title: body`; a dated conversation begins with its minute, in UTC.
    """
    line = one_line(_titled(hit.text) if hit.kind is ItemKind.DOCUMENT else hit.text)
    at = hit.meta.observed_at
    if line and at is not None and hit.kind is ItemKind.CONVERSATION:
        line = f"[{at.replace(tzinfo=None).isoformat(sep=' ', timespec='minutes')}] {line}"
    return line if len(line) <= MAX_BULLET else f"{line[:MAX_BULLET]}…"


def one_line(text: str) -> str:
    """The text with each run of white space as one blank, and none at its ends."""
    return trimmed(_BLANKS.sub(" ", text))


def _titled(text: str) -> str:
    """A document as `title: body`; engines render it as a heading and the body below."""
    heading = _TITLE.match(text)
    title = one_line(heading[1]) if heading else ""
    if heading is None or not title:
        return text
    body = text[heading.end() :].lstrip(WHITE_SPACE)
    # Many files begin with their own title, which would be read twice.
    own = _ATX_HEADING.match(body) or _SETEXT_HEADING.match(body)
    if own is not None and one_line(own[1]).casefold() == title.casefold():
        body = trimmed(body[own.end() :])
    return f"{title}: {body}" if body else title
