"""The limits the ledger decides by."""

from dataclasses import dataclass
from typing import Self

from workers.settings import WorkerSettings


@dataclass(frozen=True, slots=True)
class LedgerOptions:
    """What transitions need from the settings; durations are seconds, and mean there what they mean here."""

    key_prefix: str = "{tinymemory}:"
    build_max_wait: float = 1800.0
    lease: float = 120.0
    doorbell_lease: float = 900.0
    max_attempts: int = 5
    max_losses: int = 3
    backoff_base: float = 10.0
    backoff_cap: float = 900.0
    breaker_threshold: int = 5
    probe_interval: float = 30.0
    probe_cap: float = 900.0
    newer_envelope_grace: float = 86_400.0
    root_concurrency: int = 4
    max_in_flight: int = 64
    history_limit: int = 10_000
    dead_limit: int = 10_000

    @classmethod
    def from_settings(cls, settings: WorkerSettings) -> Self:
        """Take what is named the same."""
        return cls(**{name: getattr(settings, name) for name in cls.__slots__})
