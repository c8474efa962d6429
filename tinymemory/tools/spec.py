"""What a model is told: the names of the tools, their descriptions, and the schemas of their arguments.

The schemas are also what arguments are read by, so nothing is told that is not enforced.  They are
frozen in `tests/fixtures/tool_contracts.json`; run the tests with `BLESS_TOOL_CONTRACTS=1` to change
them on purpose.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from tinymemory.items import LearningKind, Role
from tinymemory.meta import ItemKind, SourceKind
from tinymemory.model import Value
from tinymemory.query import DEFAULT_LIMIT, MAX_GET_IDS, Facet, FetchMode

Schema = dict[str, Any]

MAX_LIMIT = 50
MAX_LIST = 100
"""Entries of a list where the schema says no other."""
MAX_TURNS = 200
MAX_TEXT = 200_000
"""Characters of what a model stores."""
MAX_QUERY = 8_000
"""Characters of a question, a query or instructions."""
MAX_WORD = 1_024
"""Characters of a string where the schema says no other."""


class ToolSpec(Value):
    """One tool as a runtime offers it to a model."""

    name: str
    description: str
    parameters: Schema
    """The JSON Schema of its arguments, an object that allows no other keys."""


class ToolName(StrEnum):
    """The tools, in the order they are offered."""

    RECALL = "memory_recall"
    FETCH = "memory_fetch"
    LIST = "memory_list"
    GET = "memory_get"
    EXPLORE = "memory_explore"
    STORE = "memory_store"
    FORGET = "memory_forget"

    @property
    def is_write(self) -> bool:
        """Whether read-only tools leave it out."""
        return self in (ToolName.STORE, ToolName.FORGET)


DESCRIPTIONS = {
    ToolName.RECALL: (
        "Answer a question from long-term memory, with citations of the memories it rests on. "
        "Use it when you need what is known, in words."
    ),
    ToolName.FETCH: (
        "Search long-term memory and get the stored memories themselves, best match first. "
        "Use it when you need exact wording, ids, or several memories."
    ),
    ToolName.LIST: (
        "List stored memories page by page, unranked. Use it with a filter to see everything of one kind; "
        "to look for something, use search or recall."
    ),
    ToolName.GET: "Read memories by id, in the order named; ids that cannot be read come back as missing.",
    ToolName.EXPLORE: (
        "Count what is stored by one property, most frequent value first. "
        "Use it to learn which kinds, tags, threads or sources there are before you filter by them."
    ),
    ToolName.STORE: (
        "Store one memory for later sessions: exactly one of `learning` (one statement worth keeping), "
        "`document` or `conversation`. Storing the same memory again changes nothing."
    ),
    ToolName.FORGET: (
        "Forget memories for good: those named by `ids`, or all that a `filter` selects; not both. "
        "Ids that cannot be forgotten come back as skipped."
    ),
}

FACETS = tuple(facet for facet in Facet if facet is not Facet.NAMESPACE)
"""Where memory lies is the host's business alone."""


def schema_of(name: ToolName, modes: tuple[FetchMode, ...]) -> Schema:
    """The schema of a tool's arguments on an engine that serves these fetch modes."""
    match name:
        case ToolName.RECALL:
            return _object(
                {
                    "question": _text("What you want to know, as a full question.", MAX_QUERY),
                    "filter": _filter(),
                    "limit": _limit("How many memories to cite at the most."),
                    "instructions": _text("How the answer should be written.", MAX_QUERY),
                    "refers_to": _refers_to(),
                },
                required=["question"],
            )
        case ToolName.FETCH:
            return _object(
                {
                    "query": _text("What to look for.", MAX_QUERY),
                    "mode": _one_of(modes, "How to rank: by words, by meaning, or by both."),
                    "filter": _filter(),
                    "limit": _limit("How many memories to return."),
                    "cursor": _cursor(),
                    "refers_to": _refers_to(),
                },
                required=["query"],
            )
        case ToolName.LIST:
            limit = _limit("How many memories to return.")
            return _object({"filter": _filter(), "limit": limit, "cursor": _cursor()})
        case ToolName.GET:
            return _object({"ids": _ids("The ids to read.")}, required=["ids"])
        case ToolName.EXPLORE:
            return _object(
                {
                    "facet": _one_of(FACETS, "The property to count by."),
                    "filter": _filter(),
                    "limit": _limit("How many values to return."),
                },
                required=["facet"],
            )
        case ToolName.STORE:
            return _object(
                {
                    "learning": _learning(),
                    "document": _document(),
                    "conversation": _conversation(),
                    "tags": _texts("Short labels to find the memory by."),
                }
            )
        case ToolName.FORGET:
            return _object({"ids": _ids("The ids to forget."), "filter": _filter()})


def _filter() -> Schema:
    # It is in five schemas, and each is in every prompt: descriptions say what names do not.
    return _object(
        {
            "kinds": _some_of(ItemKind),
            "sources": _some_of(SourceKind, "Where it came from."),
            "tags_any": _texts("With at least one of these tags."),
            "workspace": _text(),
            "folder": _text("The folder or one above it."),
            "file_path": _text("The path or a folder above it."),
            "repo": _text(),
            "url": _text(),
            "thread_id": _text(),
            "agent_id": _text(),
            "observed_after": _instant("Recorded then or later"),
            "observed_before": _instant("Recorded before"),
        },
        description="Narrows what is looked at; every field set must match.",
    )


def _refers_to() -> Schema:
    return _object(
        {
            "from": _day("The first day."),
            "to": _day("The last day, included; the first day when left out."),
        },
        required=["from"],
        description=(
            "The local days the question is about, such as last Tuesday. Memories of these days rank first "
            "and none is left out; to restrict by when a memory was recorded, use the filter."
        ),
    )


def _learning() -> Schema:
    return _object(
        {
            "text": _text("The statement, understandable on its own.", MAX_TEXT),
            "learning_kind": _one_of(LearningKind, "What sort of thing it is.", default=LearningKind.FACT),
            "confidence": {
                "type": "number",
                "minimum": 0,
                "maximum": 1,
                "default": 0.8,
                "description": "How sure you are.",
            },
            "evidence": _text("What it rests on: a quotation, or the id of a memory.", MAX_TEXT),
        },
        required=["text"],
        description="One statement worth keeping.",
    )


def _document() -> Schema:
    return _object(
        {"title": _text("Its title."), "text": _text("Its text.", MAX_TEXT)},
        required=["text"],
        description="A longer text.",
    )


def _conversation() -> Schema:
    turn = _object(
        {"role": _one_of(Role, "Who speaks."), "text": _text("What is said.", MAX_TEXT)},
        required=["role", "text"],
    )
    turns = {
        "type": "array",
        "items": turn,
        "minItems": 1,
        "maxItems": MAX_TURNS,
        "description": "What was said, in order.",
    }
    return _object({"turns": turns}, required=["turns"], description="Turns worth keeping word for word.")


def _object(properties: Schema, *, required: list[str] | None = None, description: str = "") -> Schema:
    return {
        "type": "object",
        **_described(description),
        "properties": properties,
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }


def _text(description: str = "", most: int = MAX_WORD) -> Schema:
    length = {} if most == MAX_WORD else {"maxLength": most}
    return {"type": "string", **length, **_described(description)}


def _instant(description: str) -> Schema:
    example = "2026-09-15T09:00:00Z"
    return {"type": "string", "format": "date-time", "description": f"{description}, such as {example}."}


def _day(description: str) -> Schema:
    return {"type": "string", "format": "date", "description": f"{description} YYYY-MM-DD."}


def _cursor() -> Schema:
    return _text("`next_cursor` of the page before, to go on from there.", 4 * MAX_WORD)


def _one_of(values: Iterable[StrEnum], description: str, *, default: StrEnum | None = None) -> Schema:
    chosen = {} if default is None else {"default": default.value}
    return {
        "type": "string",
        "enum": [value.value for value in values],
        **chosen,
        "description": description,
    }


def _some_of(values: Iterable[StrEnum], description: str = "") -> Schema:
    items = {"type": "string", "enum": [value.value for value in values]}
    return {"type": "array", "items": items, **_described(description)}


def _texts(description: str) -> Schema:
    return {"type": "array", "items": {"type": "string"}, "description": description}


def _ids(description: str) -> Schema:
    return {**_texts(description), "minItems": 1, "maxItems": MAX_GET_IDS}


def _limit(description: str) -> Schema:
    return {
        "type": "integer",
        "minimum": 1,
        "maximum": MAX_LIMIT,
        "default": DEFAULT_LIMIT,
        "description": description,
    }


def _described(description: str) -> Schema:
    return {"description": description} if description else {}
