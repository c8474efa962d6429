"""Which engine a root's jobs run on: the host's own factory, or the settings of a profile."""

from collections.abc import Callable
from importlib import import_module
from typing import cast

from tinymemory.config import MemoryConfig
from tinymemory.engine import MemoryEngine
from tinymemory.engines.registry import ensure_known
from tinymemory.errors import ConfigError
from tinymemory.namespace import Namespace
from workers.engines import MakeEngine
from workers.ledger import Party
from workers.settings import DEFAULT_PROFILE, WorkerSettings

EngineFactory = Callable[[Namespace, str], MemoryEngine]


def engine_maker(settings: WorkerSettings) -> MakeEngine:
    """What builds the engine of a party, by `engine_factory` or else by the profile's settings.

    Raises:
        ConfigError: `engine_factory` cannot be loaded.  The maker raises it for an unknown profile
            or engine, and for one that lacks something.
    """
    if settings.engine_factory is not None:
        factory = load_factory(settings.engine_factory)
        return lambda party: factory(Namespace.parse(party.root), party.profile)
    chosen = {"engine": settings.engine, "data_dir": settings.data_dir}
    configured = MemoryConfig.from_env().model_copy(update=chosen)
    return lambda party: _configured(settings, configured, party)


def ensure_engines(settings: WorkerSettings) -> None:
    """Refuse settings no job could run by, without building an engine.

    Raises:
        ConfigError: `engine_factory` cannot be loaded; an engine does not exist.
    """
    if settings.engine_factory is not None:
        load_factory(settings.engine_factory)
        return
    configured = MemoryConfig.from_env()
    ensure_known(settings.engine)
    for profile in settings.profiles.values():
        configured.with_profile(profile)


def load_factory(path: str) -> EngineFactory:
    """The callable at `module:name`.

    Raises:
        ConfigError: There is none.
    """
    module, colon, name = path.partition(":")
    if not (module and colon and name):
        raise ConfigError(f"`engine_factory` is {path!r}: write it as module:callable")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"`engine_factory` {path!r} cannot be loaded: {error}") from error
    if not callable(found):
        raise ConfigError(f"`engine_factory` {path!r} is not callable")
    return cast(EngineFactory, found)


def _configured(settings: WorkerSettings, configured: MemoryConfig, party: Party) -> MemoryEngine:
    profile = settings.profiles.get(party.profile)
    if profile is not None:
        return configured.with_profile(profile).build()
    if party.profile == DEFAULT_PROFILE:
        return configured.build()
    raise ConfigError(f"profile `{party.profile}` is not among `profiles`: add it to the settings")
