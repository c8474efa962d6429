"""A context pack: what a holistic recall answers, ready for the prompt."""

from pydantic import Field

from tinymemory.model import Value

CHARACTERS_PER_TOKEN = 4


class PackSection(Value):
    """One section that made it into the pack."""

    heading: str
    refs: list[str]
    """The ids of the items it lists, or of those its answer cites."""


class SkippedSection(Value):
    """One section that had nothing to show."""

    heading: str
    reason: str
    """`empty`, or the error."""


class ContextPack(Value):
    """One block of markdown within a budget."""

    markdown: str
    """Empty when nothing was found."""
    tokens: int
    """A quarter of the characters, rounded up."""
    refs: list[str] = Field(default_factory=list[str])
    """The ids of all that is shown or cited, in the order of their first citation."""
    sections: list[PackSection] = Field(default_factory=list[PackSection])
    skipped: list[SkippedSection] = Field(default_factory=list[SkippedSection])
    engine: str  # pyright: ignore[reportGeneralTypeIssues]  # the order of the page
    """The id of the engine that was read."""


def tokens_of(characters: int) -> int:
    """How many tokens that many characters count as."""
    return -(-characters // CHARACTERS_PER_TOKEN)
