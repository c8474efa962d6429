"""The engines by id: what there is, and how each is built from settings and a credential.

This module imports an engine when it is asked for, so that none costs a process that does not use it.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tinymemory.engine import EngineDescriptor, MemoryEngine
from tinymemory.engines.credential import EngineCredential, KeySource, key_variable
from tinymemory.engines.settings import EngineSettings, ModelSettings
from tinymemory.errors import ConfigError
from tinymemory.text import is_blank

DEFAULT_DATABASE = Path(".tinymemory") / "memory.db"

T = TypeVar("T")
Credential = EngineCredential | str | KeySource | None


@dataclass(frozen=True, slots=True)
class _Entry:
    """One engine: how to describe it, how to build it, and the settings it takes."""

    describe: Callable[[], EngineDescriptor]
    build: Callable[[EngineSettings, EngineCredential | None], MemoryEngine]
    takes: frozenset[str] = frozenset()
    extra: str | None = None
    """The extra of this distribution that its imports need."""


def list_engines() -> list[EngineDescriptor]:
    """What engines there are, the plainest first."""
    return [_loaded(id_, entry.describe) for id_, entry in _ENGINES.items()]


def build_engine(
    id: str,  # noqa: A002  # the wire's word
    settings: EngineSettings | Mapping[str, Any] | None = None,
    credential: Credential = None,
) -> MemoryEngine:
    """Build an engine from its settings; nothing is connected yet.

    `credential` is a key, or a function (sync or async) that is asked for one before every attempt.

    Raises:
        ConfigError: There is no such engine; a setting is unknown, malformed, or not one this
            engine takes; its key is missing; its extra is not installed.  The message says what to do.
    """
    entry = _entry(id)
    parsed = EngineSettings.parse(settings or {}, what=f"the settings of the {id} engine")
    if surplus := sorted(parsed.given - entry.takes):
        taken = ", ".join(f"`{name}`" for name in sorted(entry.takes)) or "no settings"
        raise ConfigError(f"the {id} engine takes no `{surplus[0]}` (it takes {taken})")
    given = credential
    if given is not None and not isinstance(given, EngineCredential):
        given = EngineCredential(given)
    descriptor = _loaded(id, entry.describe)
    if descriptor.needs_key and given is None:
        variable = parsed.key_env or key_variable(id)
        raise ConfigError(f"the {id} engine needs a key: set {variable}, or pass a credential")
    if descriptor.needs_endpoint and not (parsed.endpoint or descriptor.default_endpoint):
        raise ConfigError(f"the {id} engine needs an endpoint: set `endpoint` in its settings")
    return _loaded(id, lambda: entry.build(parsed, given))


def engine_ids() -> list[str]:
    """The ids there are, in the order of `list_engines`; imports no engine."""
    return list(_ENGINES)


def ensure_known(id: str) -> None:  # noqa: A002  # the wire's word
    """Raise `ConfigError`, which names the engines there are, unless this is one."""
    _entry(id)


def _entry(id_: str) -> _Entry:
    entry = _ENGINES.get(id_)
    if entry is None:
        raise ConfigError(f"there is no engine `{id_}`: choose one of {', '.join(_ENGINES)}")
    return entry


def _loaded(id_: str, load: Callable[[], T]) -> T:
    try:
        return load()
    except ModuleNotFoundError as error:
        extra = _ENGINES[id_].extra
        remedy = f"pip install 'tinymemory[{extra}]'" if extra else f"pip install {error.name}"
        raise ConfigError(f"the {id_} engine needs {error.name}: {remedy}") from error


def _reference() -> EngineDescriptor:
    from tinymemory.engines.reference import ReferenceEngine

    return ReferenceEngine.DESCRIPTOR


def _build_reference(settings: EngineSettings, credential: EngineCredential | None) -> MemoryEngine:
    from tinymemory.engines.reference import ReferenceEngine

    return ReferenceEngine()


def _sqlite() -> EngineDescriptor:
    from tinymemory.engines.sqlite import SqliteEngine

    return SqliteEngine.DESCRIPTOR


def _build_sqlite(settings: EngineSettings, credential: EngineCredential | None) -> MemoryEngine:
    from tinymemory.engines.sqlite import ChatDistiller, OpenAiEmbedder, SqliteEngine
    from tinymemory.engines.sqlite.openai import OPENAI

    embedder = distiller = None
    if (model := settings.embedder) is not None:
        if model.dimensions is None:
            raise ConfigError("`embedder` of the sqlite engine needs `dimensions`: its vectors' length")
        base = model.endpoint or OPENAI
        embedder = OpenAiEmbedder(model.model, model.dimensions, api_key=_key(model), base_url=base)
    if (model := settings.distiller) is not None:
        distiller = ChatDistiller(model.model, api_key=_key(model), base_url=model.endpoint or OPENAI)
    return SqliteEngine(settings.path or DEFAULT_DATABASE, embedder=embedder, distiller=distiller)


def _key(model: ModelSettings) -> str | None:
    if model.key_env is None:
        return None
    key = os.environ.get(model.key_env, "")
    if is_blank(key):
        raise ConfigError(f"the model {model.model} needs a key: set {model.key_env}")
    return key


def _direct() -> EngineDescriptor:
    from tinymemory.engines.cortex.surface import DIRECT

    return DIRECT.descriptor


def _build_direct(settings: EngineSettings, credential: EngineCredential | None) -> MemoryEngine:
    from tinymemory.engines.cortex import CortexEngine

    assert credential is not None, "checked by the descriptor"
    engine = CortexEngine.direct(_endpoint(settings, _direct()), credential.reveal())
    return engine.with_default_headers(settings.headers)


def _hosted() -> EngineDescriptor:
    from tinymemory.engines.cortex.surface import HOSTED

    return HOSTED.descriptor


def _build_hosted(settings: EngineSettings, credential: EngineCredential | None) -> MemoryEngine:
    from tinymemory.engines.cortex import CortexEngine

    assert credential is not None, "checked by the descriptor"
    engine = CortexEngine.tinyhumans(_endpoint(settings, _hosted()), credential.reveal())
    return engine.with_default_headers(settings.headers)


def _endpoint(settings: EngineSettings, descriptor: EngineDescriptor) -> str:
    endpoint = settings.endpoint or descriptor.default_endpoint
    assert endpoint is not None, "checked by the descriptor"
    return endpoint


_OVER_HTTP = frozenset({"endpoint", "headers", "key_env"})
_ENGINES: dict[str, _Entry] = {
    "reference": _Entry(_reference, _build_reference),
    "sqlite": _Entry(_sqlite, _build_sqlite, frozenset({"path", "embedder", "distiller"})),
    "cortexdb": _Entry(_direct, _build_direct, _OVER_HTTP),
    "tinyhumans": _Entry(_hosted, _build_hosted, _OVER_HTTP),
}
