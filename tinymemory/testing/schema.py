"""The closed schemas of the request bodies, and the grammar of scopes."""

import re
from datetime import date
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from tinymemory.testing.refusal import FaultError, RefusalError, invalid_body

MAX_SCOPE_BYTES = 4096
MAX_SEGMENTS = 32
HOSTED_MAX_SEGMENTS = 31
MAX_LABELS = 64
MAX_LABEL_BYTES = 256
MAX_KEY_BYTES = 64
MAX_TEXT_BYTES = 1_048_576
"""Of an event's text with its rendered role, `[user] …`."""
MAX_FORGET_IDS = 100
MAX_BULK = 1000

SCOPE_TYPES = frozenset(
    {
        "org",
        "dept",
        "team",
        "app",
        "user",
        "agent",
        "service",
        "ws",
        "project",
        "global",
        "system",
        "source",
    }
)
"""The scope types a deployment has registered."""

_SEGMENT = re.compile(r"[a-z][a-z0-9_]{0,31}:[A-Za-z0-9_-]{1,128}")
_HOSTED_SEGMENT = re.compile(r"[A-Za-z0-9_-]+:[A-Za-z0-9_-]+")


def _only_text(value: object) -> object:
    # Parsing dates needs the lax mode, which would take a number for a timestamp as well.
    if value is not None and not isinstance(value, str):
        raise ValueError("a date is written as text")
    return value


Instant = Annotated[AwareDatetime, Field(strict=False), BeforeValidator(_only_text)]
Day = Annotated[date, Field(strict=False), BeforeValidator(_only_text)]


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Open(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


class EventContent(_Closed):
    """What was said, and by whom."""

    kind: str = "message"
    role: str = "user"
    text: str


class EventContext(_Closed):
    """What a caller says about an event."""

    labels: list[str] = []
    observed_at: Instant | None = None


class EventDirectives(_Closed):
    """What the server is asked to do with an event; `extract: []` is: nothing."""

    extract: list[str] | None = None


class AppendBody(_Closed):
    """One event to append."""

    scope: str
    modality: str = "observation"
    content: EventContent
    context: EventContext = EventContext()
    directives: EventDirectives = EventDirectives()
    idempotency_key: str | None = None
    observed_actor: Any = None
    subject: Any = None
    hints: Any = None


class BulkBody(_Closed):
    """Events to append in order."""

    items: list[dict[str, Any]]
    ordering: str | None = None


class Budgets(_Open):
    """How much a pack may hold."""

    max_tokens: Annotated[int, Field(ge=0)] = 4000
    per_layer_limits: dict[str, Annotated[int, Field(ge=0)]] = {}


class MetadataFilter(_Closed):
    """Any of these labels."""

    labels: list[str] = []


class Filters(_Closed):
    """What a pack's events must fit."""

    metadata: MetadataFilter = MetadataFilter()


class Days(_Closed):
    """Calendar days, both included."""

    from_: Annotated[Day, Field(alias="from")]
    to: Day
    zone: str | None = None


class Temporal(_Closed):
    """The days a question is about."""

    refers_during: Days | None = None
    timezone: str | None = None


class RecallBody(_Closed):
    """One recall."""

    scope: str
    query: str
    view: Literal["granular", "descend", "holistic"] = "holistic"
    include: list[str] = ["facts", "beliefs", "episodes"]
    budgets: Budgets = Budgets()
    filters: Filters = Filters()
    temporal: Temporal | None = None
    diagnostics: Any = None


class ForgetBody(_Closed):
    """One forget; a selector without `memory_ids` reads as empty."""

    scope: str
    layers: list[str] | None = None
    selector: dict[str, Any] | None = None
    cascade: str | None = None
    confirm_all: bool = False
    audit_note: str | None = None


_Body = TypeVar("_Body", bound=BaseModel)


def parse_body(model: type[_Body], body: dict[str, Any]) -> _Body:
    """Read a body by its schema.

    Raises:
        RefusalError: 422 `INVALID_BODY`, naming the first field that does not fit.
    """
    try:
        return model.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "body"
        raise invalid_body(f"{field}: {first['msg'].lower()}") from error


def ensure_scope(scope: str) -> None:
    """Refuse a path CortexDB's grammar does not know (422 `INVALID_SCOPE`)."""
    segments = scope.split("/")
    if (
        len(segments) > MAX_SEGMENTS
        or len(scope.encode()) > MAX_SCOPE_BYTES
        or not all(_SEGMENT.fullmatch(segment) for segment in segments)
    ):
        raise RefusalError(422, "INVALID_SCOPE", "scope is not a path of type:id segments")


def ensure_registered_types(scope: str) -> None:
    """Refuse a scope with a type no deployment registers (422 `UNREGISTERED_SCOPE_TYPE`)."""
    for segment in scope.split("/"):
        kind = segment.partition(":")[0]
        if kind not in SCOPE_TYPES:
            raise RefusalError(422, "UNREGISTERED_SCOPE_TYPE", f"scope type {kind} is not registered")


def ensure_prefix(prefix: str) -> None:
    """Refuse a listing prefix that is no path: a trailing `/`, a bare word (400 `BAD_REQUEST`)."""
    if not all(_SEGMENT.fullmatch(segment) for segment in prefix.split("/")):
        raise RefusalError(400, "BAD_REQUEST", "prefix is not a path of type:id segments")


def ensure_hosted_path(path: object) -> None:
    """Refuse what the hosted back-end takes for no scope: 1 to 31 segments `type:id`."""
    segments = path.split("/") if isinstance(path, str) else []
    if not 1 <= len(segments) <= HOSTED_MAX_SEGMENTS or not all(map(_HOSTED_SEGMENT.fullmatch, segments)):
        raise FaultError(400, "BAD_REQUEST", "scope must be 1 to 31 segments type:id")


def is_within(path: str, node: str) -> bool:
    """Whether a path is a node or lies below it, by whole segments."""
    return path == node or path.startswith(node + "/")
