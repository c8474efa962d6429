"""Which engine a host uses and how it is set up, from a file, the environment or JSON."""

import json
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self, cast

from pydantic import ConfigDict, Field, ValidationError, field_validator

from tinymemory.engine import MemoryEngine
from tinymemory.engines.credential import EngineCredential, key_variable
from tinymemory.engines.registry import Credential, build_engine, engine_ids, ensure_known
from tinymemory.engines.settings import EngineSettings
from tinymemory.errors import ConfigError
from tinymemory.model import Value, explain
from tinymemory.text import trimmed

CONFIG_FILE = "tinymemory.toml"
PREFIX = "TINYMEMORY_"
DATABASE = "memory.db"
_BY_VARIABLE = ("endpoint", "headers", "key_env", "path")


class MemoryConfig(Value):
    """The choice of an engine, and the settings of each.

    As JSON: `{"engine": "cortexdb", "engines": {"cortexdb": {"endpoint": "https://…"}}}`.  No key is
    ever part of it; `build` takes one, or finds it in the environment.
    """

    model_config = ConfigDict(hide_input_in_errors=True)

    engine: str = "sqlite"
    """The id of the engine to use."""
    engines: dict[str, EngineSettings] = Field(default_factory=dict[str, EngineSettings])
    """Settings by engine id; those of engines not in use may stay."""
    data_dir: Path = Path(".tinymemory")
    """Where an embedded engine keeps its file unless its settings name one."""

    @classmethod
    def parse(cls, data: Mapping[str, Any] | str | bytes) -> Self:
        """Read a mapping or its JSON.

        Raises:
            ConfigError: It is no JSON object, or a part is unknown or malformed; the message names
                the part and not its value.
        """
        try:
            return (
                cls.model_validate_json(data) if isinstance(data, str | bytes) else cls.model_validate(data)
            )
        except ValidationError as error:
            raise ConfigError(f"memory configuration: {explain(error)}") from None

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        """Read a `.json` or `.toml` file; of a TOML file only what is a memory's, for workers share it.

        Raises:
            ConfigError: It cannot be read, or as `parse`.
        """
        return cls.parse(_file_contents(Path(path)))

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None, *, file: str | Path | None = None) -> Self:
        """Read the environment, and under it a file: the one named, or `tinymemory.toml` where there is one.

        `TINYMEMORY_ENGINE`, `TINYMEMORY_DATA_DIR`, `TINYMEMORY_ENGINES` (JSON, as the file's), and for
        each engine `TINYMEMORY_<ENGINE>_ENDPOINT`, `_HEADERS` (JSON), `_KEY_ENV` and `_PATH`.

        Raises:
            ConfigError: As `from_file`; the message names the variable.
        """
        environ = os.environ if environ is None else environ
        under = file if file is not None else CONFIG_FILE if Path(CONFIG_FILE).is_file() else None
        config = cls() if under is None else cls.from_file(under)
        named = {
            name: value
            for name in ("engine", "data_dir")
            if (value := environ.get(PREFIX + name.upper(), "").strip())
        }
        engines = _engines_in(environ)
        over = cls.parse({**named, "engines": engines})
        for id_, settings in over.engines.items():
            config = config.with_engine(id_, settings)
        return config.model_copy(update={name: getattr(over, name) for name in named})

    def with_engine(self, id: str, settings: EngineSettings | Mapping[str, Any]) -> Self:  # noqa: A002  # the wire's word
        """The same, with these settings of one engine over those it has.

        Raises:
            ConfigError: A setting is unknown or malformed.
        """
        parsed = EngineSettings.parse(settings, what=f"engines.{id}")
        merged = parsed.over(self.engines.get(id, EngineSettings()))
        return self.model_copy(update={"engines": {**self.engines, id: merged}})

    def with_profile(self, profile: Mapping[str, Any]) -> Self:
        """The same, changed by a worker's profile: `{"engine": "cortexdb", "endpoint": "https://…"}`.

        Raises:
            ConfigError: The engine or a setting is unknown or malformed.
        """
        settings = dict(profile)
        id_ = settings.pop("engine", self.engine)
        chosen = self.parse({"engine": id_}).engine
        config = self.with_engine(chosen, settings) if settings else self
        return config.model_copy(update={"engine": chosen})

    def build(
        self, credential: Credential = None, *, environ: Mapping[str, str] | None = None
    ) -> MemoryEngine:
        """Build the engine chosen; without a credential its key is looked for in the environment.

        Raises:
            ConfigError: As `build_engine`.
        """
        settings = self.engines.get(self.engine, EngineSettings())
        if self.engine == "sqlite" and settings.path is None:
            settings = settings.model_copy(update={"path": self.data_dir / DATABASE})
        if credential is None:
            variable = settings.key_env or key_variable(self.engine)
            credential = EngineCredential.from_env(variable, environ=environ)
        return build_engine(self.engine, settings, credential)

    def keys(self, *, also: Iterable[str] = (), environ: Mapping[str, str] | None = None) -> frozenset[str]:
        """The keys the environment holds for any engine, for whoever must keep them out of logs.

        `also` names further variables that hold one.
        """
        variables = {*also, *map(key_variable, engine_ids())}
        variables |= {settings.key_env for settings in self.engines.values() if settings.key_env}
        environ = os.environ if environ is None else environ
        return frozenset(key for name in variables if (key := trimmed(environ.get(name, ""))))

    @field_validator("engine")
    @classmethod
    def _known(cls, id_: str) -> str:
        ensure_known(id_)
        return id_

    @field_validator("engines")
    @classmethod
    def _all_known(cls, engines: dict[str, EngineSettings]) -> dict[str, EngineSettings]:
        for id_ in engines:
            ensure_known(id_)
        return engines


def _file_contents(path: Path) -> Mapping[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".toml":
            return {
                name: value
                for name, value in tomllib.loads(text).items()
                if name in MemoryConfig.model_fields
            }
        data: Any = json.loads(text)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{path} is neither JSON nor TOML as its name says: {error}") from None
    if not isinstance(data, dict):
        raise ConfigError(f"{path} holds no JSON object")
    return cast("dict[str, Any]", data)


def _engines_in(environ: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """The settings the environment gives, by engine."""
    engines: dict[str, dict[str, Any]] = _json_object(environ, PREFIX + "ENGINES")
    for id_ in engine_ids():
        for name in _BY_VARIABLE:
            variable = f"{PREFIX}{id_.upper()}_{name.upper()}"
            if not environ.get(variable, "").strip():
                continue
            value = _json_object(environ, variable) if name == "headers" else environ[variable].strip()
            engines.setdefault(id_, {})[name] = value
    return engines


def _json_object(environ: Mapping[str, str], variable: str) -> dict[str, Any]:
    text = environ.get(variable, "").strip()
    try:
        value: Any = json.loads(text) if text else {}
    except ValueError:
        value = None
    if not isinstance(value, dict):
        # Without the cause, which would show the value.
        raise ConfigError(f"{variable} is no JSON object")
    return cast("dict[str, Any]", value)
