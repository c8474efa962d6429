"""Fitting a pack into its budget: what goes first, and what is only shortened."""

from tinymemory.recall.pack import CHARACTERS_PER_TOKEN, tokens_of
from tinymemory.recall.selection import Chosen
from tinymemory.text import WHITE_SPACE

MIN_ANSWER = 40
"""Characters of an answer that are still worth their heading."""

_NEAR = 24
"""How far back a word border may be to end an answer there."""


def markdown(title: str, sections: list[Chosen]) -> str:
    """The pack as text; empty without a section."""
    return f"# {title}\n{''.join(map(_section, sections))}" if sections else ""


def fit(title: str, sections: list[Chosen], budget_tokens: int) -> list[Chosen]:
    """The sections that have something to show, trimmed to the budget.

    Bullets go first, from the end; then the last answer is shortened, or dropped when less than 40
    characters of it would be left.  Trims in place.
    """
    kept = [section for section in sections if section.bullets or section.answer is not None]
    length = len(markdown(title, kept))
    while kept and tokens_of(length) > budget_tokens:
        length -= trim(kept, tokens_of(length) - budget_tokens)
    return kept


def trim(kept: list[Chosen], overflow: int) -> int:
    """Take one step towards a budget `overflow` tokens away; how many characters it freed.

    Bullets go first, from the end; then the last answer is shortened, or dropped.
    """
    return _drop_bullet(kept) or _shorten_answer(kept, overflow * CHARACTERS_PER_TOKEN)


def _drop_bullet(kept: list[Chosen]) -> int:
    """Drop the last bullet, its section with it when it was the only one; how many characters that freed."""
    at = next((index for index in reversed(range(len(kept))) if kept[index].bullets), None)
    if at is None:
        return 0
    section = kept[at]
    if len(section.bullets) == 1:
        return len(_section(kept.pop(at)))
    section.ids.pop()
    return len(_bullet(section.bullets.pop()))


def _shorten_answer(kept: list[Chosen], overflow: int) -> int:
    section = kept[-1]
    answer = section.answer or ""
    keep = len(answer) - overflow - len("…".encode())
    if keep < MIN_ANSWER:
        return len(_section(kept.pop()))
    section.answer = f"{_cut(answer, keep)}…"
    return len(answer) - len(section.answer)


def _cut(text: str, length: int) -> str:
    head = text[:length]
    if text[length] not in WHITE_SPACE:
        border = max(map(head.rfind, WHITE_SPACE))
        if border >= length - _NEAR:
            head = head[:border]
    return head.rstrip(WHITE_SPACE)


def _section(section: Chosen) -> str:
    body = "".join(map(_bullet, section.bullets)) if section.answer is None else f"{section.answer}\n"
    return f"\n## {section.heading}\n\n{body}"


def _bullet(line: str) -> str:
    return f"- {line}\n"
