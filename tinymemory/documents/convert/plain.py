"""Markdown, plain text and code: kept as they are, but for their encoding; of code the line ends too."""

import re

from tinymemory.documents.converted import Converted
from tinymemory.documents.raw import ConversionLimits, DocumentError, RawDocument

_HEADING = re.compile(r"^ {0,3}#[ \t]+(.+?)[ \t]*#*[ \t]*$", re.M)
_FRONT_TITLE = re.compile(r"\A---\n(?:.*\n)*?title:[ \t]*[\"']?(.+?)[\"']?[ \t]*\n(?:.*\n)*?---\n")
_BOMS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


def convert_text(raw: RawDocument, limits: ConversionLimits) -> Converted:
    """Plain text."""
    return Converted(decoded(raw))


def convert_code(raw: RawDocument, limits: ConversionLimits) -> Converted:
    """Code, character by character."""
    return Converted(_decoded(raw))


def convert_markdown(raw: RawDocument, limits: ConversionLimits) -> Converted:
    """Markdown; its title is that of the front matter, else the first top heading."""
    text = decoded(raw)
    found = _FRONT_TITLE.match(text) or _HEADING.search(text)
    return Converted(text, title=found[1] if found else None)


def decoded(raw: RawDocument) -> str:
    """The bytes as text, line ends as newlines: by byte-order mark, as UTF-8, else as what is likeliest."""
    return _decoded(raw).replace("\r\n", "\n").replace("\r", "\n")


def _decoded(raw: RawDocument) -> str:
    encoding = next((name for mark, name in _BOMS.items() if raw.data.startswith(mark)), "utf-8")
    try:
        return raw.data.decode(encoding)
    except UnicodeDecodeError:
        from charset_normalizer import from_bytes

        if (best := from_bytes(raw.data[: 1 << 20]).best()) is None:
            raise DocumentError(f"{raw.label}: the file is no text in any known encoding") from None
        return raw.data.decode(best.encoding, errors="replace")
