"""What a holistic recall asks for: sections, each a scope and a way to fill it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from tinymemory.errors import InvalidRequestError
from tinymemory.meta import MetaFilter
from tinymemory.model import Value
from tinymemory.namespace import Reach
from tinymemory.query import DEFAULT_LIMIT, TimeHint
from tinymemory.text import is_blank

DEFAULT_BUDGET = 1200
DEFAULT_TITLE = "Memory"


class Fetch(Value):
    """Fill a section with what ranks best for its query, else the pack's, else with the newest."""

    query: str | None = None
    """Blank is none."""

    if TYPE_CHECKING:

        def __init__(self, query: str | None = None) -> None: ...


class Answer(Value):
    """Fill a section with the engine's answer to a question."""

    question: str
    instructions: str | None = None
    fallback_to_fetch: bool = False
    """Whether what ranks best for the question stands in for an answer that fails or is empty."""

    if TYPE_CHECKING:

        def __init__(
            self, question: str, instructions: str | None = None, fallback_to_fetch: bool = False
        ) -> None: ...


class Latest(Value):
    """Fill a section with the newest of its scope."""

    latest: Literal[True] = Field(default=True, kw_only=True)
    """Tells it from a `Fetch` without a query in JSON."""


class ThreadWindow(Value):
    """The turns of a thread from one on; 0 is the whole thread."""

    thread_id: str
    from_turn: int = 0

    if TYPE_CHECKING:

        def __init__(self, thread_id: str, from_turn: int = 0) -> None: ...


class ScopeSection(Value):
    """One section of a pack: a heading, what it may hold, how many, and how they are found."""

    in_order: ClassVar = ("heading", "filter", "limit", "query")

    heading: str
    filter: MetaFilter = MetaFilter()
    limit: int = DEFAULT_LIMIT
    query: Fetch | Answer | Latest = Fetch()
    except_within: Reach | None = None
    """Leaves out what lies in this reach, which a filter cannot say."""

    if TYPE_CHECKING:

        def __init__(
            self,
            heading: str,
            filter: MetaFilter = ...,  # noqa: A002  # the wire's word
            limit: int = DEFAULT_LIMIT,
            query: Fetch | Answer | Latest = ...,
            *,
            except_within: Reach | None = None,
        ) -> None: ...

    def ensure_valid(self) -> None:
        """Raise `InvalidRequestError` for a blank heading or question, or a limit below 1."""
        _ensure_text(self.heading, "heading")
        if self.limit < 1:
            raise InvalidRequestError(f"`limit` of section `{self.heading}` is {self.limit}, below 1")
        if isinstance(self.query, Answer):
            _ensure_text(self.query.question, "question")


class HolisticRecall(Value):
    """One read across several scopes, into one pack of a given size."""

    sections: tuple[ScopeSection, ...]
    """Highest priority first: an item shows in the first that lists it, and trimming starts from the end."""
    query: str | None = None
    """What every section without a query of its own is ranked for; blank is none."""
    budget_tokens: int = DEFAULT_BUDGET
    """Four characters a token."""
    title: str = DEFAULT_TITLE
    exclude_ids: tuple[str, ...] = ()
    exclude_thread: ThreadWindow | None = None
    refers_to: TimeHint | None = None

    if TYPE_CHECKING:

        def __init__(
            self,
            sections: Sequence[ScopeSection],
            query: str | None = None,
            budget_tokens: int = DEFAULT_BUDGET,
            title: str = DEFAULT_TITLE,
            exclude_ids: Sequence[str] = (),
            exclude_thread: ThreadWindow | None = None,
            refers_to: TimeHint | None = None,
        ) -> None: ...

    def ensure_valid(self) -> None:
        """Raise `InvalidRequestError` for a budget below 1, a blank title, or a malformed section."""
        if self.budget_tokens < 1:
            raise InvalidRequestError(f"`budget_tokens` is {self.budget_tokens}; it is at least 1")
        _ensure_text(self.title, "title")
        for section in self.sections:
            section.ensure_valid()
        if self.exclude_thread is not None and self.exclude_thread.from_turn < 0:
            raise InvalidRequestError(f"`from_turn` is {self.exclude_thread.from_turn}; it is at least 0")


def _ensure_text(text: str, name: str) -> None:
    if is_blank(text):
        raise InvalidRequestError(f"`{name}` is blank")
