"""What white space is, to everything that trims or asks whether a text is blank.

The set is Unicode's White_Space property, which other implementations of the store use as well.
`str.strip()` and `str.isspace()` are no substitute: they also take U+001C to U+001F.

Source: https://www.unicode.org/Public/UCD/latest/ucd/PropList.txt, "White_Space".
"""

WHITE_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680"
    "\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)


def trimmed(text: str) -> str:
    """The text without white space at either end."""
    return text.strip(WHITE_SPACE)


def is_blank(text: str) -> bool:
    """Whether nothing but white space is there."""
    return not text.strip(WHITE_SPACE)
