"""What is asked of an engine and what it answers.

A request can be built malformed, from a model's arguments say; `ensure_valid()` refuses it, and
every engine method calls that first.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from enum import StrEnum
from typing import Any, ClassVar, Self
from zoneinfo import ZoneInfo

from pydantic import Field, GetCoreSchemaHandler, model_validator
from pydantic_core import CoreSchema, core_schema

from tinymemory.errors import InvalidRequestError
from tinymemory.facet import Facet
from tinymemory.items import Float32
from tinymemory.meta import ItemKind, MemoryMeta, MetaFilter
from tinymemory.model import AsModel, Value, in_utc
from tinymemory.namespace import Namespace, Reach
from tinymemory.text import is_blank

MAX_GET_IDS = 200
MAX_EXPLORE_LIMIT = 500
MAX_SCAN_LIMIT = 50_000
DEFAULT_LIMIT = 10

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


class FetchMode(StrEnum):
    """How a fetch ranks: by words, by meaning, or by both."""

    KEYWORD = "keyword"
    VECTOR = "vector"
    HYBRID = "hybrid"


class Hit(Value):
    """One stored item, or the piece of it that was found."""

    id: str
    kind: ItemKind
    text: str
    meta: MemoryMeta
    score: float = 0.0
    """Compares within one page only; 0.0 in a listing."""
    confidence: Float32 | None = None


class Citation(Value):
    """An item an answer rests on."""

    id: str
    kind: ItemKind
    snippet: str
    meta: MemoryMeta
    score: float | None = None


@dataclass(frozen=True, slots=True)
class TimeHint(AsModel):
    """The local calendar days a question is about, both included; JSON calls `from_` `from`."""

    from_: date
    to: date
    zone: str | None = None
    """An IANA name such as Europe/Vienna; None is UTC."""

    def __post_init__(self) -> None:
        for name in ("from_", "to"):
            object.__setattr__(self, name, _day(getattr(self, name), name.rstrip("_")))
        if self.to < self.from_:
            raise InvalidRequestError(f"the time hint runs backwards, from {self.from_} to {self.to}")
        _zone(self.zone)

    def covers(self, at: datetime) -> bool:
        """Whether an aware instant falls on one of the days, as its zone counts them."""
        try:
            return self.from_ <= in_utc(at).astimezone(_zone(self.zone)).date() <= self.to
        except OverflowError:  # the zone's clock would leave the years 1 to 9999
            return False

    def rank(self, hits: Sequence[Hit]) -> list[Hit]:
        """The hits of the hinted days first; the order within is kept and nothing is dropped."""
        return sorted(
            hits, key=lambda hit: hit.meta.observed_at is None or not self.covers(hit.meta.observed_at)
        )

    def _json(self) -> dict[str, str]:
        zone = {} if self.zone is None else {"zone": self.zone}
        return {"from": self.from_.isoformat(), "to": self.to.isoformat(), **zone}

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def build(found: dict[str, Any]) -> "TimeHint":
            unknown = found.keys() - {"from", "from_", "to", "zone"}
            start = found.get("from", found.get("from_"))
            if unknown or start is None or "to" not in found:
                raise InvalidRequestError("a time hint has `from`, `to` and perhaps a `zone`")
            return cls(start, found["to"], found.get("zone"))

        from_dict = core_schema.no_info_after_validator_function(build, core_schema.dict_schema())
        return core_schema.json_or_python_schema(
            json_schema=from_dict,
            python_schema=core_schema.union_schema([core_schema.is_instance_schema(cls), from_dict]),
            serialization=core_schema.plain_serializer_function_ser_schema(cls._json),
        )


class RecallRequest(Value):
    """Ask for an answer in prose, with citations."""

    question: str
    filter: MetaFilter = MetaFilter()
    limit: int = DEFAULT_LIMIT
    instructions: str | None = None
    refers_to: TimeHint | None = None

    def ensure_valid(self) -> None:
        """Raise `InvalidRequestError` for a blank question or a limit below 1."""
        self.ensure_encodable()
        _ensure_text(self.question, "question")
        _ensure_limit(self.limit)


class RecallAnswer(Value):
    """An answer and what it rests on."""

    answer: str
    citations: list[Citation] = Field(default_factory=list[Citation])
    model: str | None = None


class FetchRequest(Value):
    """Rank what is stored against a query."""

    query: str
    mode: FetchMode = FetchMode.HYBRID
    filter: MetaFilter = MetaFilter()
    limit: int = DEFAULT_LIMIT
    cursor: str | None = None
    beliefs: int = 0
    """How many beliefs to bring along in the same read."""
    refers_to: TimeHint | None = None

    def ensure_valid(self) -> None:
        """Raise `InvalidRequestError` for a blank query, a limit below 1 or a negative count of beliefs."""
        self.ensure_encodable()
        _ensure_text(self.query, "query")
        _ensure_limit(self.limit)
        if self.beliefs < 0:
            raise InvalidRequestError(f"`beliefs` is {self.beliefs}; it is at least 0")


class FetchPage(Value):
    """Hits, best first."""

    hits: list[Hit] = Field(default_factory=list[Hit])
    next_cursor: str | None = None
    """None on the last page."""
    beliefs: list[Hit] = Field(default_factory=list[Hit])


class ListRequest(Value):
    """Page through what is stored, unranked."""

    filter: MetaFilter = MetaFilter()
    limit: int = DEFAULT_LIMIT
    cursor: str | None = None

    def ensure_valid(self) -> None:
        """Raise `InvalidRequestError` for a limit below 1."""
        self.ensure_encodable()
        _ensure_limit(self.limit)


class ListPage(Value):
    """One page of a listing; scores are 0.0."""

    items: list[Hit] = Field(default_factory=list[Hit])
    next_cursor: str | None = None
    """None on the last page."""


class ForgetTarget(Value):
    """What to forget: named items, or all a filter selects."""

    wanted_ids: tuple[str, ...] | None = Field(default=None, alias="ids")
    wanted_filter: MetaFilter | None = Field(default=None, alias="filter")

    @classmethod
    def ids(cls, ids: Sequence[str]) -> Self:
        """The items with these ids."""
        return cls(ids=tuple(ids))

    @classmethod
    def filter(cls, filter: MetaFilter) -> Self:  # noqa: A002  # the name the wire has for it
        """Every item the filter selects."""
        return cls(filter=filter)

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.wanted_ids is None) == (self.wanted_filter is None):
            raise InvalidRequestError("a forget names either `ids` or a `filter`")
        return self

    def ensure_valid(self) -> None:
        """Raise `InvalidRequestError` when no id is named, or the filter is empty."""
        self.ensure_encodable()
        if self.wanted_ids is not None and not self.wanted_ids:
            raise InvalidRequestError("`ids` names nothing to forget")
        if self.wanted_filter is not None and self.wanted_filter.is_empty:
            raise InvalidRequestError("an empty `filter` would forget everything: set at least one field")


class ForgetReport(Value):
    """How many items were forgotten."""

    forgotten: int


class ExploreRequest(Value):
    """Count what is stored by a facet."""

    facet: Facet
    filter: MetaFilter = MetaFilter()
    limit: int = DEFAULT_LIMIT
    """How many buckets to show."""
    scan_limit: int = 5000
    """How many items to count at the most."""

    def ensure_valid(self) -> None:
        """Raise `InvalidRequestError` for a limit outside 1..=500 or a scan limit outside 1..=50000."""
        self.ensure_encodable()
        _ensure_within(self.limit, MAX_EXPLORE_LIMIT, "limit")
        _ensure_within(self.scan_limit, MAX_SCAN_LIMIT, "scan_limit")


class Bucket(Value):
    """How many items have one value."""

    value: str
    count: int


class ExplorePage(Value):
    """The counts of one facet."""

    facet: Facet
    buckets: list[Bucket] = Field(default_factory=list[Bucket])
    """Most items first, then by value."""
    total: int = 0
    """Items counted."""
    missing: int = 0
    """Items counted that have no value."""
    more_buckets: bool = False
    """Whether the limit left values out."""
    truncated: bool = False
    """Whether the scan limit left items uncounted."""


class GetRequest(Value):
    """Read items by id."""

    ids: tuple[str, ...]
    reach: Reach | None = None

    def ensure_valid(self) -> None:
        """Raise `InvalidRequestError` for no ids, more than 200, or a blank one."""
        self.ensure_encodable()
        if not self.ids:
            raise InvalidRequestError("`ids` names nothing to get")
        if len(self.ids) > MAX_GET_IDS:
            raise InvalidRequestError(f"`ids` names {len(self.ids)} items; at most {MAX_GET_IDS} fit one get")
        if any(map(is_blank, self.ids)):
            raise InvalidRequestError("`ids` holds a blank id")


class Consolidation(StrEnum):
    """When an engine builds beliefs."""

    NONE = "none"
    ON_DEMAND = "on_demand"
    SCHEDULED = "scheduled"


class ConsolidateRequest(Value):
    """Build beliefs from what a reach holds."""

    omitted_when_empty: ClassVar = frozenset({"kinds"})

    reach: Reach
    kinds: tuple[ItemKind, ...] = ()
    """Which kinds to build from; none named is all."""

    def ensure_valid(self) -> None:
        """Raise `InvalidRequestError` for a kind named twice."""
        self.ensure_encodable()
        if len(set(self.kinds)) < len(self.kinds):
            raise InvalidRequestError("`kinds` names a kind twice")


class ConsolidateStatus(StrEnum):
    """Where a build stands."""

    STARTED = "started"
    SCHEDULED = "scheduled"
    COMPLETED = "completed"


class ConsolidateReceipt(Value):
    """What an engine answers to a build."""

    status: ConsolidateStatus
    jobs: list[str] = Field(default_factory=list[str])
    """The engine's own handles of what it started."""
    scopes: int = 0
    built: int | None = None
    """Beliefs built, when it is known."""


class BeliefsRequest(Value):
    """Read the beliefs built within a reach."""

    reach: Reach = Reach.subtree(Namespace.ROOT)
    limit: int = DEFAULT_LIMIT
    query: str | None = None

    def ensure_valid(self) -> None:
        """Raise `InvalidRequestError` for a limit below 1."""
        self.ensure_encodable()
        _ensure_limit(self.limit)


def _ensure_text(text: str, name: str) -> None:
    if is_blank(text):
        raise InvalidRequestError(f"`{name}` is blank")


def _ensure_limit(limit: int) -> None:
    if limit < 1:
        raise InvalidRequestError(f"`limit` is {limit}; it is at least 1")


def _ensure_within(value: int, most: int, name: str) -> None:
    if not 1 <= value <= most:
        raise InvalidRequestError(f"`{name}` is {value}, not within 1 to {most}")


def _day(value: object, name: str) -> date:
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    try:
        # `date.fromisoformat` would also take a week, 2026-W01-1.
        if isinstance(value, str) and _DAY.fullmatch(value):
            return date.fromisoformat(value)
    except ValueError:
        pass
    raise InvalidRequestError(f"`{name}` of a time hint is a day, written YYYY-MM-DD")


def _zone(name: str | None) -> tzinfo:
    try:
        return ZoneInfo("UTC" if name is None else name)
    # A directory, a path that climbs out and a name no file has each fail in a way of their own.
    except (KeyError, ValueError, OSError, TypeError):
        raise InvalidRequestError(
            "`zone` of a time hint is no IANA time zone, such as Europe/Vienna"
        ) from None
