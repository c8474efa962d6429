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
_LIST_MARK = re.compile(r"^\s*([-*+>]|\d+[.)])\s+(?:\[[ xX]\]\s+)?")
# Each part takes a whole line or more and can be read in one way only, so that no text takes long.
_NO_PROSE = re.compile(
    r"""
    \A---[ \t]*\n(?=[\w-]+:)(?:.*\n)*?(?:---|\.\.\.)[ \t]*$       # front matter
    | ^[ ]{0,3}(```|~~~)[\s\S]*?(?:^[ ]{0,3}\1.*$|\Z)             # code
    | ^[ \t]*<!--[\s\S]*?(?:-->|\Z)                               # a comment
    | ^[ ]{0,3}\#{1,6}(?:[ \t].*)?$                               # a heading
    | ^(?:.+\n)?[ \t]*(?:=+|-+)[ \t]*$                            # a heading underlined, or a rule
    | ^[ ]{0,3}(?:[-*_][ \t]*){3,}$                               # a rule
    | ^[ \t]*\|.*$                                                # a row of a table, or a whole one:
    | ^[^|\n]*\|.*\n[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)+$(?:\n[^|\n]*\|.*$)*
    | ^[ \t]*\[?!\[.*$                                            # a picture
    """,
    re.MULTILINE | re.VERBOSE,
)
_MARKS = re.compile(r"[#|]|^[-=*_:~` \t]+$", re.MULTILINE)
_LONGEST_TITLE = 100
_STATED = re.compile(r"[.!?\u2026\u3002\uff01\uff1f][\"')\]\u201d\u2019]*$")


def trimmed(text: str) -> str:
    """The text without white space at either end."""
    return text.strip(WHITE_SPACE)


def is_blank(text: str) -> bool:
    """Whether nothing but white space is there."""
    return not text.strip(WHITE_SPACE)


def first_sentence(text: str, *, limit: int, is_titled: bool = False) -> str | None:
    """The first sentence of a text's prose on one line, at most `limit` characters; None when blank.

    No prose, unless there is nothing else, are front matter, headings, rules, tables, code, comments and
    pictures of Markdown and, where a title is to be expected, a short line by itself that ends like no
    sentence.  Marks of lists are dropped.
    """
    paragraph = _first_paragraph("\n".join(text.splitlines()), is_titled=is_titled)
    end = _SENTENCE_END.search(paragraph)
    return trimmed(paragraph[: end.end() if end else None][:limit]) or None


def _first_paragraph(text: str, *, is_titled: bool) -> str:
    paragraphs = _paragraphs(_NO_PROSE.sub("", text)) or _paragraphs(_MARKS.sub(" ", text))
    stated = (lines for lines in paragraphs if not (is_titled and _is_title(lines)))
    return " ".join(next(stated, paragraphs[0] if paragraphs else []))


def _paragraphs(text: str) -> list[list[str]]:
    """The lines of each paragraph, without the marks of lists."""
    paragraphs: list[list[str]] = [[]]
    for line in (trimmed(_LIST_MARK.sub("", line, count=1)) for line in text.split("\n")):
        if line:
            paragraphs[-1].append(line)
        elif paragraphs[-1]:
            paragraphs.append([])
    return [lines for lines in paragraphs if lines]


def _is_title(lines: list[str]) -> bool:
    return len(lines) == 1 and len(lines[0]) <= _LONGEST_TITLE and not _STATED.search(lines[0])
