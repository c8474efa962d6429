"""The long-term memory of an AI agent, as a library: values in, values out.

Engines other than the reference, and the conversion of files, are imported when they are first named,
so that none costs a process that does not use it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tinymemory.background import (
    BackgroundJob,
    BackgroundRunner,
    BuildBeliefs,
    IngestBrain,
    JobOutcome,
    JobReport,
    OutcomeKind,
    parse_job,
)
from tinymemory.brain import Brain, BrainBatch, BrainDocument, Ingested
from tinymemory.config import MemoryConfig
from tinymemory.conformance import ConformanceError
from tinymemory.context import Brief, ContextDoc, ContextSpec, compile_context
from tinymemory.engine import (
    MAX_STORE_MANY,
    EngineDescriptor,
    EngineHealth,
    HealthState,
    MemoryEngine,
    WaitFor,
)
from tinymemory.engines.credential import EngineCredential
from tinymemory.engines.reference import ReferenceEngine
from tinymemory.engines.registry import build_engine, list_engines
from tinymemory.engines.settings import EngineSettings
from tinymemory.errors import (
    ConfigError,
    ConflictError,
    EngineError,
    InsufficientCreditsError,
    InvalidRequestError,
    NotFoundError,
    TinyMemoryError,
    UnauthorizedError,
    UnavailableError,
    UnreachableError,
    UnsupportedError,
)
from tinymemory.items import (
    Conversation,
    Document,
    DocumentBody,
    Learning,
    LearningKind,
    Role,
    StoreItem,
    StoreReceipt,
    Turn,
)
from tinymemory.layout import BrainSource, MemoryLayout
from tinymemory.lifecycle import AgentMemory, PostTurnReport, RecallPolicy, TurnContext
from tinymemory.meta import (
    ItemKind,
    MemoryMeta,
    MetaFilter,
    ObservedActor,
    SourceKind,
    SourceRef,
    ToolCallRef,
    TurnRange,
)
from tinymemory.namespace import (
    Namespace,
    Reach,
    Segment,
    SegmentKind,
)
from tinymemory.query import (
    MAX_GET_IDS,
    BeliefsRequest,
    Bucket,
    Citation,
    ConsolidateReceipt,
    ConsolidateRequest,
    ConsolidateStatus,
    Consolidation,
    ExplorePage,
    ExploreRequest,
    Facet,
    FetchMode,
    FetchPage,
    FetchRequest,
    ForgetReport,
    ForgetTarget,
    GetRequest,
    Hit,
    ListPage,
    ListRequest,
    RecallAnswer,
    RecallRequest,
    TimeHint,
)
from tinymemory.recall import (
    Answer,
    ContextPack,
    Fetch,
    HolisticRecall,
    Latest,
    PackSection,
    ScopeSection,
    SkippedSection,
    ThreadWindow,
    holistic_recall,
)

if TYPE_CHECKING:
    # Not in `__all__`: an import of all names has to work without the extra.
    from tinymemory.documents import Converters as Converters
    from tinymemory.documents import RawDocument as RawDocument
    from tinymemory.documents import brain_document as brain_document
    from tinymemory.engines.cortex import BearerSource, CortexEngine, Timing
    from tinymemory.engines.sqlite import (
        ChatDistiller,
        Distiller,
        Draft,
        Embedder,
        ExtractiveDistiller,
        HashedEmbedder,
        Material,
        OpenAiEmbedder,
        Source,
        SqliteEngine,
    )
from tinymemory.tools import MemoryTools, ToolScope, ToolSpec

__all__ = [
    "MAX_GET_IDS",
    "MAX_STORE_MANY",
    "AgentMemory",
    "Answer",
    "BackgroundJob",
    "BackgroundRunner",
    "BearerSource",
    "BeliefsRequest",
    "Brain",
    "BrainBatch",
    "BrainDocument",
    "BrainSource",
    "Brief",
    "Bucket",
    "BuildBeliefs",
    "ChatDistiller",
    "Citation",
    "ConfigError",
    "ConflictError",
    "ConformanceError",
    "ConsolidateReceipt",
    "ConsolidateRequest",
    "ConsolidateStatus",
    "Consolidation",
    "ContextDoc",
    "ContextPack",
    "ContextSpec",
    "Conversation",
    "CortexEngine",
    "Distiller",
    "Document",
    "DocumentBody",
    "Draft",
    "Embedder",
    "EngineCredential",
    "EngineDescriptor",
    "EngineError",
    "EngineHealth",
    "EngineSettings",
    "ExplorePage",
    "ExploreRequest",
    "ExtractiveDistiller",
    "Facet",
    "Fetch",
    "FetchMode",
    "FetchPage",
    "FetchRequest",
    "ForgetReport",
    "ForgetTarget",
    "GetRequest",
    "HashedEmbedder",
    "HealthState",
    "Hit",
    "HolisticRecall",
    "IngestBrain",
    "Ingested",
    "InsufficientCreditsError",
    "InvalidRequestError",
    "ItemKind",
    "JobOutcome",
    "JobReport",
    "Latest",
    "Learning",
    "LearningKind",
    "ListPage",
    "ListRequest",
    "Material",
    "MemoryConfig",
    "MemoryEngine",
    "MemoryLayout",
    "MemoryMeta",
    "MemoryTools",
    "MetaFilter",
    "Namespace",
    "NotFoundError",
    "ObservedActor",
    "OpenAiEmbedder",
    "OutcomeKind",
    "PackSection",
    "PostTurnReport",
    "Reach",
    "RecallAnswer",
    "RecallPolicy",
    "RecallRequest",
    "ReferenceEngine",
    "Role",
    "ScopeSection",
    "Segment",
    "SegmentKind",
    "SkippedSection",
    "Source",
    "SourceKind",
    "SourceRef",
    "SqliteEngine",
    "StoreItem",
    "StoreReceipt",
    "ThreadWindow",
    "TimeHint",
    "Timing",
    "TinyMemoryError",
    "ToolCallRef",
    "ToolScope",
    "ToolSpec",
    "Turn",
    "TurnContext",
    "TurnRange",
    "UnauthorizedError",
    "UnavailableError",
    "UnreachableError",
    "UnsupportedError",
    "WaitFor",
    "build_engine",
    "compile_context",
    "holistic_recall",
    "list_engines",
    "parse_job",
]

_ON_DEMAND = {
    **dict.fromkeys(("BearerSource", "CortexEngine", "Timing"), "tinymemory.engines.cortex"),
    **dict.fromkeys(("Converters", "RawDocument", "brain_document"), "tinymemory.documents"),
    **dict.fromkeys(
        (
            "Distiller",
            "Draft",
            "Embedder",
            "ExtractiveDistiller",
            "HashedEmbedder",
            "Material",
            "Source",
            "SqliteEngine",
            "ChatDistiller",
            "OpenAiEmbedder",
        ),
        "tinymemory.engines.sqlite",
    ),
}
_EXTRAS = {"tinymemory.documents": "documents"}


def __getattr__(name: str) -> Any:
    if name not in _ON_DEMAND:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _ON_DEMAND[name]
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        if module not in _EXTRAS:
            raise
        raise ConfigError(f"{name} needs {error.name}: pip install 'tinymemory[{_EXTRAS[module]}]'") from None
