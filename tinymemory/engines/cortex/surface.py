"""The two HTTP surfaces: what is called what on each, and what each has not got."""

from dataclasses import dataclass
from enum import StrEnum

from tinymemory.engine import EngineDescriptor
from tinymemory.query import Consolidation, FetchMode


class Wire(StrEnum):
    """Which surface an engine speaks."""

    DIRECT = "direct"
    """A CortexDB server."""
    HOSTED = "hosted"
    """A back-end with CortexDB behind it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surface:
    """One wire's names and limits.  A route of None does not exist there."""

    wire: Wire
    descriptor: EngineDescriptor
    labels_per_listing: int
    append: str
    events: str
    recall: str
    answer: str
    forget: str
    scopes: str
    health: str
    health_query: tuple[tuple[str, str], ...] = ()
    append_many: str | None = None
    build: str | None = None
    beliefs: str | None = None
    version: str | None = None
    whoami: str | None = None

    @property
    def is_hosted(self) -> bool:
        """Whether a back-end with its own envelope, claims and limits stands in between."""
        return self.wire is Wire.HOSTED


DIRECT = Surface(
    wire=Wire.DIRECT,
    descriptor=EngineDescriptor(
        id="cortexdb",
        label="CortexDB",
        description="A CortexDB server: an append-only event log with ranked recall and built beliefs.",
        needs_key=True,
        default_endpoint="https://api-v1.cortexdb.ai",
        fetch_modes=(FetchMode.HYBRID,),
        consolidation=Consolidation.ON_DEMAND,
    ),
    labels_per_listing=100,
    append="v1/experience",
    append_many="v1/experience/bulk",
    events="v1/events",
    recall="v1/recall",
    answer="v1/answer",
    forget="v1/forget",
    scopes="v1/scopes/list",
    build="v1/beliefs/build",
    beliefs="v1/beliefs",
    health="v1/admin/health",
    version="v1/admin/version",
    whoami="v1/auth/whoami",
)

HOSTED = Surface(
    wire=Wire.HOSTED,
    descriptor=EngineDescriptor(
        id="tinyhumans",
        label="TinyHumans",
        description="The hosted TinyHumans memory; it builds beliefs on a schedule of its own.",
        hosted=True,
        needs_key=True,
        default_endpoint="https://api.tinyhumans.ai",
        fetch_modes=(FetchMode.HYBRID,),
        consolidation=Consolidation.SCHEDULED,
    ),
    labels_per_listing=50,
    append="memory/experience",
    events="memory/events",
    recall="memory/recall",
    answer="memory/answer",
    forget="memory/forget",
    scopes="memory/scopes",
    # A prefix nobody writes below: the answer is short and says the same.
    health="memory/scopes",
    health_query=(("prefix", "tmh:probe"), ("limit", "1")),
)
