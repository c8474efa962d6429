"""Engines by id: what there is, what each takes, and what is said when something is missing."""

import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tinymemory import ConfigError, Consolidation, ReferenceEngine
from tinymemory.engines.credential import EngineCredential
from tinymemory.engines.registry import build_engine, list_engines
from tinymemory.engines.settings import EngineSettings

KEY = "sk-very-secret"


def refusal(build: Callable[[], object]) -> str:
    with pytest.raises(ConfigError) as caught:
        build()
    return caught.value.message


def test_the_engines_are_listed_the_plainest_first() -> None:
    engines = list_engines()

    assert [(engine.id, engine.hosted, engine.needs_endpoint, engine.needs_key) for engine in engines] == [
        ("reference", False, False, False),
        ("sqlite", False, False, False),
        ("cortexdb", False, False, True),
        ("tinyhumans", True, False, True),
    ]
    assert [engine.consolidation for engine in engines] == [
        Consolidation.ON_DEMAND,
        Consolidation.ON_DEMAND,
        Consolidation.ON_DEMAND,
        Consolidation.SCHEDULED,
    ]


def test_listing_imports_no_engine_before_it_is_asked() -> None:
    code = (
        "import sys, tinymemory.engines.registry\n"
        "assert 'tinymemory.engines.sqlite' not in sys.modules\n"
        "assert 'tinymemory.engines.cortex' not in sys.modules\n"
    )

    import subprocess

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_each_engine_is_built_as_its_descriptor_says(tmp_path: Path) -> None:
    for descriptor in list_engines():
        settings = {"path": tmp_path / "memory.db"} if descriptor.id == "sqlite" else {}
        async with build_engine(descriptor.id, settings, KEY) as engine:
            assert engine.descriptor == descriptor


def test_an_unknown_engine_is_told_what_there_is() -> None:
    assert refusal(lambda: build_engine("mongo")) == (
        "there is no engine `mongo`: choose one of reference, sqlite, cortexdb, tinyhumans"
    )


@pytest.mark.parametrize("id_", ["cortexdb", "tinyhumans"])
def test_a_missing_key_is_told_which_variable_to_set(id_: str) -> None:
    assert refusal(lambda: build_engine(id_)) == (
        f"the {id_} engine needs a key: set TINYMEMORY_{id_.upper()}_API_KEY, or pass a credential"
    )
    assert "set ACME_KEY," in refusal(lambda: build_engine(id_, {"key_env": "ACME_KEY"}))


@pytest.mark.parametrize("blank", ["", "  ", "\n"])
def test_a_blank_key_is_refused(blank: str) -> None:
    assert "blank" in refusal(lambda: build_engine("cortexdb", {}, blank))
    assert "blank" in refusal(lambda: EngineCredential.static(blank))


def test_what_is_no_credential_is_refused() -> None:
    assert "neither a key nor a function" in refusal(lambda: build_engine("cortexdb", {}, 7))  # pyright: ignore[reportArgumentType]  # the point


@pytest.mark.parametrize(
    ("id_", "settings", "said"),
    [
        ("reference", {"path": "x"}, "the reference engine takes no `path` (it takes no settings)"),
        (
            "sqlite",
            {"endpoint": "https://x.test"},
            "the sqlite engine takes no `endpoint` (it takes `distiller`",
        ),
        (
            "cortexdb",
            {"path": "x"},
            "the cortexdb engine takes no `path` (it takes `endpoint`, `headers`, `key_env`)",
        ),
        ("cortexdb", {"colour": "red"}, "the settings of the cortexdb engine: `colour`: extra inputs"),
        ("cortexdb", {"headers": ["x"]}, "the settings of the cortexdb engine: `headers`: input should"),
        ("cortexdb", {"endpoint": "http://cortex.example.com"}, "use https"),
        ("cortexdb", {"headers": {"Authorization": KEY}}, "authorization"),
    ],
)
def test_a_setting_that_does_not_fit_is_named(id_: str, settings: dict[str, Any], said: str) -> None:
    message = refusal(lambda: build_engine(id_, settings, KEY))

    assert said in message
    assert KEY not in message


@pytest.mark.parametrize(
    "name", ["key", "api_key", "apiKey", "API-KEY", "token", "Authorization", "password"]
)
def test_a_key_among_the_settings_is_refused_and_not_shown(name: str) -> None:
    message = refusal(lambda: build_engine("cortexdb", {name: KEY}))

    assert f"`{name}` looks like a credential" in message
    assert "`key_env`" in message
    assert KEY not in message


def test_an_engine_whose_extra_is_missing_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tinymemory.engines.cortex", None)
    monkeypatch.setitem(sys.modules, "tinymemory.engines.cortex.surface", None)

    assert "the cortexdb engine needs tinymemory.engines.cortex" in refusal(
        lambda: build_engine("cortexdb", {}, KEY)
    )


def test_settings_may_be_given_as_a_value() -> None:
    assert isinstance(build_engine("reference", EngineSettings()), ReferenceEngine)


def test_a_credential_is_never_shown_nor_pickled() -> None:
    credential = EngineCredential.static(KEY)

    assert KEY not in f"{credential!r} {credential}"
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(credential)


def test_settings_show_neither_endpoint_nor_headers() -> None:
    settings = EngineSettings(endpoint="https://ann:pass@x.test", headers={"x-sdk-name": "mine"})

    assert "pass" not in repr(settings)
    assert "mine" not in repr(settings)


def test_a_credential_from_the_environment_is_none_when_unset_or_blank() -> None:
    found = EngineCredential.from_env("A", environ={"A": KEY})

    assert found is not None
    assert found.reveal() == KEY
    assert EngineCredential.from_env("B", environ={"A": KEY}) is None
    assert EngineCredential.from_env("A", environ={"A": " "}) is None
