"""What an engine can be told besides its credential."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field, ValidationError, model_validator

from tinymemory.errors import ConfigError
from tinymemory.model import Value, explain

_CREDENTIAL = re.compile(
    r"(?i)(^|_|-)(key|token|secret|password|credentials?|bearer|authorization)$|^api-?key$"
)


class ModelSettings(Value):
    """A model behind an OpenAI-compatible service, for what an embedded engine cannot do by itself.

    Its key, when the service wants one, is in the environment variable that `key_env` names.
    """

    model_config = ConfigDict(hide_input_in_errors=True, protected_namespaces=())

    model: str
    endpoint: str | None = Field(default=None, repr=False)
    """The base of its routes, such as `http://127.0.0.1:11434/v1`; unset, OpenAI's."""
    key_env: str | None = None
    dimensions: int | None = Field(default=None, ge=1)
    """The length of an embedding model's vectors; a chat model has none."""


class EngineSettings(Value):
    """The settings of one engine; each takes only some of them and refuses the others.

    A key is never among them: configuration is copied, committed and shown.
    """

    model_config = ConfigDict(hide_input_in_errors=True)

    endpoint: str | None = Field(default=None, repr=False)
    """Where the engine is; unset, its descriptor's default."""
    headers: dict[str, str] = Field(default_factory=dict[str, str], repr=False)
    """Sent on every request, such as `x-sdk-name`."""
    key_env: str | None = None
    """The environment variable that holds the key; unset, `TINYMEMORY_<ENGINE>_API_KEY`."""
    path: Path | None = None
    """The file of an embedded engine."""
    embedder: ModelSettings | None = None
    """What makes an embedded engine's vectors; unset, a local one that needs nothing."""
    distiller: ModelSettings | None = None
    """What builds an embedded engine's beliefs; unset, one that quotes and calls no model."""

    @classmethod
    def parse(
        cls, data: "Mapping[str, Any] | EngineSettings", *, what: str = "engine settings"
    ) -> "EngineSettings":
        """Read settings.

        Raises:
            ConfigError: One is unknown, of the wrong type, or a credential; the message names it
                and not its value.
        """
        try:
            return data if isinstance(data, EngineSettings) else cls.model_validate(data)
        except ValidationError as error:
            raise ConfigError(f"{what}: {explain(error)}") from None

    @property
    def given(self) -> frozenset[str]:
        """The names of what is set."""
        return frozenset(name for name in type(self).model_fields if getattr(self, name))

    def over(self, base: "EngineSettings") -> "EngineSettings":
        """These settings, and of `base` whatever they leave open."""
        return base.model_copy(update={name: getattr(self, name) for name in self.given})

    @model_validator(mode="before")
    @classmethod
    def _no_credential(cls, data: Any) -> Any:
        if isinstance(data, Mapping):
            for name in data:  # pyright: ignore[reportUnknownVariableType]  # whatever was given
                if isinstance(name, str) and name not in cls.model_fields and _CREDENTIAL.search(name):
                    raise ConfigError(
                        f"`{name}` looks like a credential, which no configuration holds: put it into an "
                        "environment variable and name that in `key_env`, or pass it as the credential"
                    )
        return data  # pyright: ignore[reportUnknownVariableType]  # pydantic's turn
