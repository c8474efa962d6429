"""The pieces an item is ranked by: a large document's pages, sections and paragraphs, else the item.

The item stays whole to who lists or gets it; a hit carries the piece that was found, and where it lies.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from tinymemory.engine import Item
from tinymemory.items import Document
from tinymemory.meta import MemoryMeta
from tinymemory.text import is_blank, trimmed

WHOLE = 2_000
"""Characters up to which a document is not split."""
PIECE = 1_200
"""Characters a piece is filled up to, where its page or section is longer."""

_SECTION_LENGTH = 120
_PAGE_BREAK = "\f"
_MARK = re.compile(r"\f|(?:(?<=[\n\f])|\A) {0,3}#{1,6} (?=([^\n\f]*))")
_FENCE = re.compile(r"^ {0,3}(```|~~~).*?(?:^ {0,3}\1|\Z)", re.MULTILINE | re.DOTALL)
# Where a text that is too long may be cut, best first: blank line, line, sentence, word.
_BORDERS = (
    re.compile(r"\n[ \t]*\n"),
    re.compile(r"\n"),
    re.compile(r"(?<=[.!?\u3002\uff01\uff1f])\s*"),
    re.compile(r"\s"),
)


@dataclass(frozen=True, slots=True)
class Piece:
    """What is ranked: a text, and what else it is searched by."""

    text: str
    context: str
    page: int | None = None
    """From 1; None where the document has no page breaks."""
    section: str | None = None
    whole: bool = True
    """Whether a hit shows the whole item rather than this piece of it."""

    @property
    def tags(self) -> tuple[str, ...]:
        """Where it lies in its document, as tags of a hit."""
        page = () if self.page is None else (f"page:{self.page}",)
        return page if self.section is None else (*page, f"section:{self.section}")

    @property
    def embedded(self) -> str:
        """What an embedder reads of it."""
        return f"{self.context}\n{self.text}" if self.context else self.text


def pieces_of(item: Item) -> list[Piece]:
    """The pieces of an item, in order; the item alone unless it is a large document."""
    context = _context(item.meta)
    body = (item.body.text or "") if isinstance(item, Document) else ""
    if not isinstance(item, Document) or len(body) <= WHOLE:
        text = item.render_text()
        return [Piece(part, context) for part in (_cut(text) if len(text) > WHOLE else [text])]
    title = "" if item.title is None else trimmed(item.title)
    return [
        Piece(
            trimmed(part.text),
            " · ".join(filter(None, (title, part.section, context))),
            part.page,
            part.section,
            whole=False,
        )
        for part in _parts(body)
    ]


def _context(meta: MemoryMeta) -> str:
    file = (meta.file_path or "").rstrip("/").rpartition("/")[2]
    actor = meta.observed_actor
    return " · ".join(filter(None, (file, actor and actor.name)))


@dataclass(frozen=True, slots=True)
class _Part:
    text: str
    page: int | None
    section: str | None


def _parts(body: str) -> Iterator[_Part]:
    for unit in _units(body):
        for text in _cut(unit.text):
            yield replace(unit, text=text)


def _units(body: str) -> list[_Part]:
    """The pages and sections of a body that hold more than a heading; a bare heading joins what follows."""
    fenced = [match.span() for match in _FENCE.finditer(body)]
    has_pages = _PAGE_BREAK in body
    units: list[_Part] = []
    page, section, pending = 1, None, ""
    marks = [
        mark for mark in _MARK.finditer(body) if mark[0] == _PAGE_BREAK or not _lies_in(fenced, mark.start())
    ]
    borders = [(0, None), *((mark.start(), mark) for mark in marks), (len(body), None)]
    for (start, mark), (end, _) in pairwise(borders):
        if mark is not None and mark[0] == _PAGE_BREAK:
            page += 1
        elif mark is not None:
            section = trimmed(trimmed(mark[1]).rstrip("#"))[:_SECTION_LENGTH] or section
        text = pending + body[start:end]
        is_last = end == len(body)
        if _is_bare(text) and not is_last:
            pending = text
            continue
        pending = ""
        if not is_blank(text):
            units.append(_Part(text, page if has_pages else None, section))
    return units


def _lies_in(spans: list[tuple[int, int]], position: int) -> bool:
    return any(start <= position < end for start, end in spans)


def _is_bare(text: str) -> bool:
    return all(is_blank(line) or line.lstrip().startswith("#") for line in text.splitlines())


def _cut(text: str, borders: tuple[re.Pattern[str], ...] = _BORDERS) -> list[str]:
    """The text in pieces of at most `PIECE` characters, cut at the best borders there are."""
    if len(text) <= PIECE:
        return [text]
    if not borders:
        return [text[start : start + PIECE] for start in range(0, len(text), PIECE)]
    ends = [match.end() for match in borders[0].finditer(text)]
    stretches = [text[start:end] for start, end in pairwise([0, *ends, len(text)]) if start < end]
    if len(stretches) == 1:
        return _cut(text, borders[1:])
    return _packed(stretches, borders[1:])


def _packed(stretches: list[str], borders: tuple[re.Pattern[str], ...]) -> list[str]:
    packed: list[str] = []
    for stretch in stretches:
        if packed and len(packed[-1]) + len(stretch) <= PIECE:
            packed[-1] += stretch
        else:
            packed += _cut(stretch, borders)
    return [text for text in packed if not is_blank(text)]
