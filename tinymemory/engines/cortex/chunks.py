"""A long document in pieces, cut where its pages, headings and paragraphs end.

The split is fixed to the byte: a document one library half wrote is completed by another.  Sizes
are what a text takes inside a JSON string.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from tinymemory.engines.cortex.envelope import ChunkPart, Envelope
from tinymemory.engines.cortex.sizes import EVENT_CAP, encoded_size
from tinymemory.text import WHITE_SPACE

CHUNK_TARGET = 262_144
"""Bytes of JSON a piece is filled up to."""

_PAGE_BREAK = "\f"
_LARGEST = 4_294_967_295
_SECTION_ROOM = 752
_SECTION_LENGTH = 120
_LONGEST_ESCAPE = 6
_INK = re.compile(f"[^{WHITE_SPACE}]")
# A page break, or what stands before a heading's title.  A line starts at the beginning, after a newline
# and after a page break.  A title runs to the next newline: page breaks in it are part of it, and still
# break the page.
_MARK = re.compile(r"\f|(?:(?<=[\n\f])|\A) {0,3}#{1,6} ")


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a document's body, with where it lies in it."""

    text: str
    pages: tuple[int, int] | None
    section: str | None


@dataclass(frozen=True, slots=True)
class _Stretch:
    text: str
    size: int
    page: int
    section: str | None


def pieces_of(body: str, overhead: int, target: int = CHUNK_TARGET) -> list[Piece]:
    """The pieces of a body, in order; one alone when the document stays whole.

    `overhead` is what an event takes beside a piece's text.  With a target of 0 every page and
    section is a piece of its own.
    """
    room = EVENT_CAP - overhead
    if room < _LONGEST_ESCAPE:
        return [Piece(body, None, None)]
    pack = min(target - overhead, room)
    if pack < _LONGEST_ESCAPE:
        pack = room
    if target and encoded_size(body) <= pack:
        return [Piece(body, None, None)]
    parts = [part for unit in _units(body) for part in _parts(unit, pack)]
    groups = [[part] for part in parts] if not target else _packed(parts, pack)
    has_pages = _PAGE_BREAK in body
    return [
        Piece(
            "".join(part.text for part in group),
            (group[0].page, group[-1].page) if has_pages else None,
            group[0].section,
        )
        for group in groups
    ]


def overhead_of(envelope: Envelope, body: str) -> int:
    """What an event of this document takes beside its text, at the most."""
    largest = ChunkPart(
        index=_LARGEST,
        count=_LARGEST,
        pages=(_LARGEST, _LARGEST) if _PAGE_BREAK in body else None,
    )
    empty = envelope.model_copy(update={"chunk": largest})
    return len(empty.json_v2("").encode()) + _SECTION_ROOM


def _units(body: str) -> list[_Stretch]:
    """The body's pages and sections.

    A blank stretch belongs to the unit after it, at the very end to the one before.
    """
    starts: list[tuple[int, int, str | None]] = []  # where a unit starts, where its ink does, its section
    start, ink, section = 0, _ink(body, 0), None
    for at, title in _marks(body):
        if ink < at:
            starts.append((start, ink, section))
            start, ink = at, _ink(body, at)
        section = title or section
    if ink < len(body) or not starts:
        starts.append((start, ink, section))
    units: list[_Stretch] = []
    page, counted = 1, 0
    for (start, ink, section), (end, _, _) in pairwise([*starts, (len(body), 0, None)]):
        page, counted = page + body.count(_PAGE_BREAK, counted, ink), ink
        units.append(_Stretch(body[start:end], encoded_size(body[start:end]), page, section))
    return units


def _marks(body: str) -> Iterator[tuple[int, str | None]]:
    """Where a page breaks or a heading starts, and the heading's title."""
    line_end = title_end = 0
    for mark in _MARK.finditer(body):
        if mark[0] == _PAGE_BREAK:
            yield mark.start(), None
            continue
        # Once a line: page breaks can make many headings of one, and a scan for each is quadratic.
        if mark.end() > line_end:
            line_end = body.find("\n", mark.end()) % (len(body) + 1)  # -1, no newline, becomes the end
            line = body[mark.end() : line_end].rstrip(WHITE_SPACE).rstrip("#").rstrip(WHITE_SPACE)
            title_end = mark.end() + len(line)
        start = _ink(body, mark.end())
        if start < title_end:
            yield mark.start(), body[start : min(start + _SECTION_LENGTH, title_end)]


def _ink(body: str, start: int) -> int:
    match = _INK.search(body, start)
    return match.start() if match else len(body)


def _parts(unit: _Stretch, pack: int) -> list[_Stretch]:
    if unit.size <= pack:
        return [unit]
    for separator in ("\n\n", "\n"):
        stretches = [_like(unit, text) for text in _after_each(separator, unit.text)]
        if len(stretches) > 1:
            smaller = [part for stretch in stretches for part in _parts(stretch, pack)]
            return [_like(unit, "".join(part.text for part in group)) for group in _packed(smaller, pack)]
    return [_like(unit, text) for text in _cut(unit.text, pack)]


def _like(unit: _Stretch, text: str) -> _Stretch:
    return replace(unit, text=text, size=encoded_size(text))


def _after_each(separator: str, text: str) -> list[str]:
    *ended, last = text.split(separator)
    return [stretch + separator for stretch in ended] + ([last] if last else [])


def _cut(text: str, pack: int) -> Iterator[str]:
    """Slices as long as fit, where nothing else tells where to cut."""
    while text:
        # No character takes less than a byte, so this many at the most.
        fitting = bisect_right(
            range(min(pack, len(text))), pack, key=lambda end: encoded_size(text[: end + 1])
        )
        yield text[:fitting]
        text = text[fitting:]


def _packed(parts: Iterable[_Stretch], pack: int) -> list[list[_Stretch]]:
    """Neighbours together while they fit."""
    groups: list[list[_Stretch]] = []
    size = 0
    for part in parts:
        if groups and size + part.size <= pack:
            groups[-1].append(part)
            size += part.size
        else:
            groups.append([part])
            size = part.size
    return groups
