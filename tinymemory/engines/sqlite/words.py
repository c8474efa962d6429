"""Words: what a text is searched by, and what a query asks for."""

import re
from collections.abc import Iterable

# Han, kana and the like are written without spaces, so each character is a word of its own, and a
# query's run of them a phrase.
_RUN = (
    "\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\uff66-\uff9f\U00020000-\U0003ffff"
)
_UNSPACED = re.compile(f"[{_RUN}]")
_WORD = re.compile(f"[{_RUN}]+|[^\\W_{_RUN}]+(?:['\u2019][^\\W_{_RUN}]+)?")

STOP_WORDS = frozenset(
    word
    for line in (
        "a about after again all also am an and any are as at be because been before being both but by can",
        "could did do does doing done for from had has have having he her here hers him his how i if in into",
        "is it its just may me might more most my no nor not of off on once only or other our ours out over",
        "own s same shall she should so some such t than that the their theirs them then there these they",
        "this those through to too under until up us very was we were what when where which while who whom",
        "whose why will with would you your yours d ll m re ve didn doesn don isn wasn won",
    )
    for word in line.split()
)
"""English words that say nothing of what a text is about."""


def words(text: str) -> list[str]:
    """The words of a text in order, case folded."""
    folded = text.casefold()
    found: list[str] = _WORD.findall(folded)
    if "'" not in folded and "\u2019" not in folded:
        return found
    return [word.replace("\u2019", "'").removesuffix("'s") for word in found]


def telling(found: Iterable[str]) -> list[str]:
    """The distinct words that say what a text is about; all of them when none does."""
    distinct = list(dict.fromkeys(found))
    return [word for word in distinct if word.partition("'")[0] not in STOP_WORDS] or distinct


def indexed(text: str) -> str:
    """A text as the index of words takes it.

    Taking it out again needs the same text: a change here needs a migration that builds the index anew.
    """
    return _UNSPACED.sub(r" \g<0> ", text)


def any_of(query: str) -> str | None:
    """The FTS5 expression that any word of a query satisfies; None when there is no word in it."""
    # Each word is quoted, and no word holds a quote: whatever is asked is data, never syntax.
    return " OR ".join(f'"{indexed(word)}"' for word in telling(words(query))) or None
