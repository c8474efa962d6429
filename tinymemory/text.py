"""What white space is, to everything that trims or asks whether a text is blank; and first sentences.

The set is Unicode's White_Space property, which other implementations of the store use as well.
`str.strip()` and `str.isspace()` are no substitute: they also take U+001C to U+001F.

Source: https://www.unicode.org/Public/UCD/latest/ucd/PropList.txt, "White_Space".
"""

import re

WHITE_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680"
    "\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_SENTENCE_END = re.compile(r"[.!?]+[\"')\]]*(?=\s|$)")
_LIST_MARK = re.compile(r"^\s*([-*+>]|\d+[.)])\s+")
_HEADING = re.compile(r"^ {0,3}#{1,6}(?:[ \t].*)?$|^(?:.+\n)?[ \t]*(?:=+|-+)[ \t]*$", re.MULTILINE)


def trimmed(text: str) -> str:
    """The text without white space at either end."""
    return text.strip(WHITE_SPACE)


def is_blank(text: str) -> bool:
    """Whether nothing but white space is there."""
    return not text.strip(WHITE_SPACE)


def first_sentence(text: str, *, limit: int) -> str | None:
    """The first sentence of a text's prose on one line, at most `limit` characters; None when blank.

    Markdown headings are no prose, unless there is nothing else, and marks of lists are dropped.
    """
    paragraph = _first_paragraph(text)
    end = _SENTENCE_END.search(paragraph)
    return trimmed(paragraph[: end.end() if end else None][:limit]) or None


def _first_paragraph(text: str) -> str:
    prose = _HEADING.sub("", text)
    lines = (text.replace("#", " ") if is_blank(prose) else prose).splitlines()
    kept: list[str] = []
    for line in (trimmed(_LIST_MARK.sub("", line, count=1)) for line in lines):
        if line:
            kept.append(line)
        elif kept:
            break
    return " ".join(kept)
