"""Distillers: what is believed on the ground of what was said and written."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from tinymemory.engine import Item
from tinymemory.engines.sqlite.sentences import first_statement, replaces
from tinymemory.items import Conversation, Document, Learning, LearningKind, Role
from tinymemory.text import first_sentence, trimmed

_LONGEST = 240


@dataclass(frozen=True, slots=True)
class Source:
    """An item beliefs are drawn from."""

    id: str
    item: Item
    is_new: bool
    """Whether no build has read it yet."""


@dataclass(frozen=True, slots=True)
class Draft:
    """One thing to believe, and the ids of the sources it rests on."""

    text: str
    evidence: tuple[str, ...]
    kind: LearningKind = LearningKind.FACT
    confidence: float = 0.5


@dataclass(frozen=True, slots=True)
class Material:
    """What is distilled together: one document, or one thread's conversations in the order of their turns."""

    sources: tuple[Source, ...]
    held: tuple[Draft, ...] = ()
    """What is believed already, from those of the sources that are not new."""


@runtime_checkable
class Distiller(Protocol):
    """What draws beliefs from sources.  It may also have `aclose()`, called when its engine closes."""

    @property
    def id(self) -> str:
        """Names the distiller."""
        ...

    async def distill(self, material: Material) -> Sequence[Draft]:
        """All that is to be believed from the material; what it leaves out is believed no longer.

        Raises:
            TinyMemoryError: It failed; nothing changes, and the build stays owed.
        """
        ...


class ExtractiveDistiller:
    """Believes what was written, word for word: no model, and the same for everybody.

    Of a document it takes the first sentence of the prose; of a thread, the first statement of each of
    the user's turns, where the newest value wins: a statement that corrects an older one replaces it.
    """

    id: str = "extractive-1"

    async def distill(self, material: Material) -> list[Draft]:
        """One draft per document or statement, at most 240 characters each."""
        said = [Draft(text, (source.id,)) for source in material.sources for text in _statements(source.item)]
        return _newest(said) or _first_words(material.sources)


def _statements(item: Item) -> list[str]:
    match item:
        case Document():
            sentence = first_sentence(item.body.text or "", limit=_LONGEST, is_titled=True)
            return [sentence] if sentence else []
        case Conversation():
            users = [turn.text for turn in item.turns if turn.role is Role.USER]
            return [trimmed(said[:_LONGEST]) for said in map(first_statement, users) if said]
        case Learning():
            return []


def _newest(drafts: list[Draft]) -> list[Draft]:
    kept: list[Draft] = []
    for draft in drafts:
        kept = [older for older in kept if not replaces(draft.text, older.text)]
        kept.append(draft)
    return kept


def _first_words(sources: Sequence[Source]) -> list[Draft]:
    """The user's first words, where nobody has stated anything."""
    for source in sources:
        if isinstance(source.item, Conversation):
            for turn in source.item.turns:
                if turn.role is Role.USER and (text := first_sentence(turn.text, limit=_LONGEST)):
                    return [Draft(text, (source.id,))]
    return []
