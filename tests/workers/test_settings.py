"""What is configured: the promised defaults, where values come from, and what does not fit."""

from pathlib import Path
from typing import Any

import pytest

from tinymemory.errors import ConfigError
from workers.settings import WorkerSettings

_PROMISED: dict[str, Any] = {
    "build_delay": 300,
    "idle_delay": 900,
    "build_max_wait": 1800,
    "sweep_interval": 60,
    "lease": 120,
    "max_attempts": 5,
    "max_losses": 3,
    "backoff_base": 10,
    "backoff_cap": 900,
    "root_concurrency": 4,
    "max_in_flight": 64,
    "doorbell_lease": 900,
    "job_timeout": 600,
    "reap_interval": 30,
    "probe_interval": 30,
    "probe_cap": 900,
    "breaker_threshold": 5,
    "newer_envelope_grace": 86_400,
    "shutdown_grace": 30,
    "timezone": "UTC",
    "key_prefix": "{tinymemory}:",
    "metrics_port": None,
    "engine": "sqlite",
    "profiles": {},
    "payload_limit": 8 * 1024 * 1024,
    "spool_dir": None,
    "spool_limit": 64 * 1024 * 1024,
    "history_limit": 10_000,
    "dead_limit": 10_000,
    "engine_factory": None,
}


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_defaults_are_the_promised_ones() -> None:
    settings = WorkerSettings.load()

    assert {name: getattr(settings, name) for name in _PROMISED} == _PROMISED
    assert settings.broker_url == settings.redis_url


def test_the_environment_wins_over_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("tinymemory.toml").write_text(
        'build_delay = 1.5\nlease = 7\n\n[profiles.slow]\nengine = "cortexdb"\nendpoint = "https://memory.example"\n'
    )
    monkeypatch.setenv("TINYMEMORY_LEASE", "9.5")

    settings = WorkerSettings.load()

    assert (settings.build_delay, settings.lease) == (1.5, 9.5)
    assert settings.profiles["slow"] == {"engine": "cortexdb", "endpoint": "https://memory.example"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TIMEZONE", "Europe/Atlantis"),
        ("TIMEZONE", "../secrets"),
        ("BUILD_DELAY", "soon"),
        ("MAX_ATTEMPTS", "0"),
        ("PROFILES", '{"a b": {}}'),
    ],
)
def test_a_setting_that_does_not_fit_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(f"TINYMEMORY_{name}", value)

    with pytest.raises(ConfigError) as refused:
        WorkerSettings.load()

    assert name.lower() in str(refused.value)
