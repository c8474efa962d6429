"""What a converter makes of a file."""

from collections.abc import Callable
from dataclasses import dataclass

from tinymemory.documents.raw import ConversionLimits, RawDocument

PAGE_BREAK = "\f"


@dataclass(frozen=True, slots=True)
class Converted:
    """A file as text: markdown, with a form feed before each page but the first."""

    text: str
    title: str | None = None
    language: str | None = None
    """ISO 639-1, when the file itself says so."""
    pages: int | None = None
    pages_with_text: int | None = None
    """Below `pages` when some hold pictures of text alone."""


Convert = Callable[[RawDocument, ConversionLimits], Converted]


def markdown_table(rows: list[list[str]]) -> str:
    """The rows as a markdown table, the first one its head; empty for none."""
    if not rows:
        return ""
    width = max(map(len, rows))
    lines = [
        "| " + " | ".join(_cell(cell) for cell in row + [""] * (width - len(row))) + " |" for row in rows
    ]
    return "\n".join([lines[0], "|" + " --- |" * width, *lines[1:]])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
