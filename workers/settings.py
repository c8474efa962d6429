"""Everything a host, worker, beat or command reads from outside, in one place."""

import json
import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Self
from zoneinfo import ZoneInfo

from pydantic import Field, JsonValue, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from tinymemory.config import MemoryConfig
from tinymemory.errors import ConfigError
from tinymemory.model import explain

try:
    import fcntl
except ImportError:  # Windows, where `up` does not run
    fcntl = None

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Period = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
PROFILE_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""A profile's name is part of its queues' names."""
ProfileName = Annotated[str, Field(pattern=f"^{PROFILE_NAME.pattern}$")]
EngineSettings = dict[str, JsonValue]

KIB = 1024
MIB = 1024 * KIB
CONFIG_FILE = "tinymemory.toml"
DEFAULT_PROFILE = "default"
DATA_DIR = Path(".tinymemory")
UP_FILE = "up.json"
"""In `data_dir` while `tinymemory up` runs: where its parts listen."""
UP_LOCK = "up.lock"
"""Beside it, and held by `up`: an `up` that was killed leaves the first behind, and not this."""


class WorkerSettings(BaseSettings):
    """What is configured, from the environment (`TINYMEMORY_…`) or else `tinymemory.toml`.

    Durations are seconds as plain numbers, sizes bytes.  A value read from neither is the default
    here.  Raises `ConfigError`, which names the setting, through `load()`.
    """

    model_config = SettingsConfigDict(
        env_prefix="TINYMEMORY_",
        toml_file=CONFIG_FILE,
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
        hide_input_in_errors=True,
        use_attribute_docstrings=True,
    )

    redis_url: str = Field(default="redis://127.0.0.1:6379/0", repr=False)
    """Where the ledger is: `redis://`, `rediss://` (TLS), `unix://` or `sentinel://host:port;…/db?master=name`."""
    broker_url: str = Field(default_factory=lambda known: known.get("redis_url", ""), repr=False)
    """Where doorbells go; unset is the ledger's Redis.  `amqp://` works too."""
    visibility_timeout: Period | None = None
    """After how long a Redis broker hands an unacknowledged doorbell out again.  Must be above
    `job_timeout`; unset, it is an hour or twice that, whichever is longer."""
    key_prefix: str = Field(default="{tinymemory}:", min_length=1)
    """What every key of the ledger starts with; braces keep them in one slot of a cluster."""

    build_delay: Seconds = 300.0
    """How far a belief build stays behind the last write of its scope."""
    idle_delay: Seconds = 900.0
    """The same, for the build that covers a thread's last few turns (`after_turn`)."""
    build_max_wait: Seconds = 1800.0
    """How long writes may go on putting a build off."""

    sweep_interval: Period = 60.0
    """How often the beat claims what is due."""
    reap_interval: Period = 30.0
    """How often runs whose worker fell silent are taken back."""
    probe_interval: Period = 30.0
    """How soon, and then how often, a parked engine is asked whether it is well."""
    probe_cap: Period = 900.0
    """The longest pause between two such questions."""
    timezone: str = "UTC"
    """The zone the nightly build's hour is in."""

    lease: Period = 120.0
    """How long a run may be silent; renewed every third of it, reaped after it."""
    doorbell_lease: Period = 900.0
    """How long a claimed job may wait in the broker for a worker to begin it."""
    job_timeout: Period = 600.0
    """How long one run may take."""
    shutdown_grace: Seconds = 30.0
    """How long a stopping worker lets its runs go on before they are cancelled back to waiting."""

    max_attempts: Count = 5
    """Runs that may fail before a job is dead."""
    max_losses: Count = 3
    """Workers that may die with a job before it is dead."""
    backoff_base: Seconds = 10.0
    """The pause before the first retry is up to this, before the second up to twice as much, and so on."""
    backoff_cap: Seconds = 900.0
    """The longest such pause."""
    breaker_threshold: Count = 5
    """Transient failures in a row, of at least three jobs, that park a whole profile."""
    newer_envelope_grace: Seconds = 86_400.0
    """How long a job written by a newer release waits for a worker that can read it."""

    root_concurrency: Count = 4
    """Jobs of one root that may be queued or running at once."""
    max_in_flight: Count = 64
    """Jobs a queue may hold claimed and not begun."""

    payload_limit: Count = 8 * MIB
    """The largest document a job may carry."""
    spool_dir: Path | None = None
    """Where a host keeps jobs while Redis is away; unset, an outage is an error."""
    spool_limit: Count = 64 * MIB
    """What the files there may add up to."""
    history_limit: Count = 10_000
    """Records of ended runs that are kept."""
    dead_limit: Count = 10_000
    """Dead letters that are kept; the oldest goes first, counted."""

    engine: str = "sqlite"
    """The engine of the profile `default`."""
    profiles: dict[ProfileName, EngineSettings] = Field(
        default_factory=dict[ProfileName, EngineSettings], repr=False
    )
    """Engine settings by profile: `{"engine": "cortexdb", "endpoint": "https://…"}`."""
    engine_factory: str | None = None
    """`module:callable(root, profile) -> MemoryEngine`; wins over `engine`."""
    data_dir: Path = DATA_DIR
    """Where the embedded engine and the embedded broker keep their files."""
    metrics_port: int | None = Field(default=None, ge=0, le=65535)
    """Where a worker or beat serves its metrics; unset, nowhere."""

    @classmethod
    def load(cls, **values: Any) -> Self:
        """Read the environment and the file.

        Raises:
            ConfigError: A setting does not fit, the message names its variable; or the file is no
                TOML, or names what is no setting.
        """
        try:
            _ensure_known(TomlConfigSettingsSource(cls).toml_data)
            return cls(**values)
        except ValidationError as error:
            raise ConfigError(f"settings: {explain(error)}") from None
        except SettingsError:
            # The only setting read as JSON.  Without the cause, which would show the value.
            raise ConfigError("TINYMEMORY_PROFILES is no JSON object") from None
        except (OSError, ValueError) as error:
            raise ConfigError(f"{CONFIG_FILE} cannot be read: {error}") from None

    @property
    def redis_is_broker(self) -> bool:
        """Whether Redis carries the doorbells too."""
        return not self.broker_url.startswith(("amqp", "pyamqp"))

    @field_validator("timezone")
    @classmethod
    def _iana(cls, zone: str) -> str:
        try:
            ZoneInfo(zone)
        except (KeyError, ValueError, OSError):
            raise ValueError("is no IANA time zone, such as Europe/Vienna") from None
        return zone

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.backoff_cap < self.backoff_base:
            raise ValueError("`backoff_cap` is below `backoff_base`")
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """What the caller passes wins over the environment, that over the file, that over `up`."""
        return (
            init_settings,
            env_settings,
            TomlConfigSettingsSource(settings_cls),
            _EmbeddedSource(settings_cls),
        )


class OwnSettings(WorkerSettings):
    """The same without what an `up` says of itself: the next `up` would take it for the user's Redis."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """What the caller passes wins over the environment, and that over the file."""
        return (init_settings, env_settings, TomlConfigSettingsSource(settings_cls))


def up_runs_in(folder: Path) -> bool:
    """Whether a `tinymemory up` is running on this `data_dir`."""
    if fcntl is None:
        return False
    try:
        with (folder / UP_LOCK).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _ensure_known(file: Mapping[str, Any]) -> None:
    known = {*WorkerSettings.model_fields, *MemoryConfig.model_fields}
    for name in file:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f": is it `{near[0]}`?" if near else ""
            raise ConfigError(f"{CONFIG_FILE} sets `{name}`, which is no setting{hint}")


class _EmbeddedSource(PydanticBaseSettingsSource):
    """Where the embedded broker of this `data_dir` listens, while `tinymemory up` runs."""

    def __call__(self) -> dict[str, Any]:
        folder = Path(self.current_state.get("data_dir") or DATA_DIR)
        if not up_runs_in(folder):
            return {}
        try:
            found = json.loads((folder / UP_FILE).read_text())
            return {"redis_url": str(found["redis_url"])}
        except (OSError, ValueError, KeyError, TypeError):
            return {}

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Not used: the file is read as a whole."""
        return None, field_name, False
