"""Which engine is used, from a file, the environment or JSON; and no key ever from there."""

import json
from pathlib import Path
from typing import Any

import pytest

from tinymemory import (
    ConfigError,
    EngineCredential,
    EngineSettings,
    MemoryConfig,
    ReferenceEngine,
    build_engine,
)
from tinymemory.testing import CortexServer, cortex_server

KEY = "sk-very-secret"
SEED = {
    "engine": "cortexdb",  # or "tinyhumans"
    "engines": {"cortexdb": {"endpoint": "https://cortex.example.com"}},
}
SEED_HEADERS = {"engines": {"tinyhumans": {"headers": {"x-sdk-name": "my-product"}}}}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, so that no `tinymemory.toml` of anybody's is read."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refusal(data: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        MemoryConfig.parse(data)
    return caught.value.message


# JSON.


async def test_the_guides_json_works_as_it_stands() -> None:
    for config in (MemoryConfig.parse(SEED), MemoryConfig.parse(json.dumps(SEED)), MemoryConfig(**SEED)):  # pyright: ignore[reportArgumentType]  # plain JSON
        async with config.build(KEY) as engine:
            assert engine.descriptor.id == "cortexdb"
            assert "cortex.example.com" in repr(engine)


def test_headers_are_an_engines_own() -> None:
    config = MemoryConfig.parse(SEED_HEADERS)

    assert config.engines["tinyhumans"].headers == {"x-sdk-name": "my-product"}
    assert config.engine == "sqlite"


def test_it_round_trips_through_json() -> None:
    config = MemoryConfig.parse({**SEED, "data_dir": "/var/lib/memory"})

    assert MemoryConfig.parse(config.model_dump_json()) == config


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"engine": "mongo"}, "there is no engine `mongo`"),
        ({"engines": {"mongo": {}}}, "there is no engine `mongo`"),
        ({"engnie": "sqlite"}, "`engnie`"),
        ({"engine": 7}, "`engine`"),
        ({"engines": {"cortexdb": {"endpiont": "https://x.test"}}}, "`engines.cortexdb.endpiont`"),
        ({"engines": {"cortexdb": {"api_key": KEY}}}, "`api_key` looks like a credential"),
        ({"engines": {"cortexdb": {"endpoint": {"url": KEY}}}}, "`engines.cortexdb.endpoint`"),
        ("{", "memory configuration: "),
        ("[]", "memory configuration: "),
    ],
)
def test_a_malformed_configuration_is_named_and_not_shown(data: Any, said: str) -> None:
    message = refusal(data)

    assert said in message
    assert KEY not in message


# Files.


def test_a_toml_file_is_shared_with_the_workers(elsewhere: Path) -> None:
    file = elsewhere / "tinymemory.toml"
    file.write_text(
        'engine = "cortexdb"\nbuild_delay = 5\n\n[engines.cortexdb]\nendpoint = "https://cortex.example.com"\n'
    )

    config = MemoryConfig.from_file(file)

    assert config == MemoryConfig.parse(SEED)


def test_a_json_file_is_the_same_and_closed(elsewhere: Path) -> None:
    file = elsewhere / "memory.json"
    file.write_text(json.dumps(SEED))

    assert MemoryConfig.from_file(file) == MemoryConfig.parse(SEED)
    file.write_text('{"build_delay": 5}')
    with pytest.raises(ConfigError, match="`build_delay`"):
        MemoryConfig.from_file(file)


@pytest.mark.parametrize(
    ("name", "text"), [("memory.json", "{"), ("memory.toml", "= 3"), ("memory.json", "[]")]
)
def test_an_unreadable_file_is_named(elsewhere: Path, name: str, text: str) -> None:
    (elsewhere / name).write_text(text)

    with pytest.raises(ConfigError, match=name):
        MemoryConfig.from_file(name)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml cannot be read"):
        MemoryConfig.from_file("nowhere.toml")


# The environment.


def test_without_anything_it_is_the_embedded_engine() -> None:
    assert MemoryConfig.from_env({}) == MemoryConfig(engine="sqlite")


def test_the_environment_names_engine_and_settings() -> None:
    config = MemoryConfig.from_env(
        {
            "TINYMEMORY_ENGINE": "tinyhumans",
            "TINYMEMORY_DATA_DIR": "/var/lib/memory",
            "TINYMEMORY_TINYHUMANS_ENDPOINT": "https://memory.example.com",
            "TINYMEMORY_TINYHUMANS_HEADERS": '{"x-sdk-name": "mine"}',
            "TINYMEMORY_TINYHUMANS_KEY_ENV": "ACME_KEY",
            "TINYMEMORY_SQLITE_PATH": "/tmp/memory.db",
            "TINYMEMORY_ENGINES": '{"cortexdb": {"endpoint": "https://cortex.example.com"}}',
        }
    )

    assert config == MemoryConfig(
        engine="tinyhumans",
        data_dir=Path("/var/lib/memory"),
        engines={
            "cortexdb": EngineSettings(endpoint="https://cortex.example.com"),
            "tinyhumans": EngineSettings(
                endpoint="https://memory.example.com", headers={"x-sdk-name": "mine"}, key_env="ACME_KEY"
            ),
            "sqlite": EngineSettings(path=Path("/tmp/memory.db")),
        },
    )


def test_the_environment_wins_over_the_file_and_keeps_the_rest(elsewhere: Path) -> None:
    (elsewhere / "tinymemory.toml").write_text(
        'engine = "sqlite"\n[engines.cortexdb]\nendpoint = "https://a.test"\n'
        'headers = {x-sdk-name = "mine"}\n'
    )

    config = MemoryConfig.from_env(
        {"TINYMEMORY_ENGINE": "cortexdb", "TINYMEMORY_CORTEXDB_ENDPOINT": "https://b.test"}
    )

    assert config.engine == "cortexdb"
    assert config.engines["cortexdb"] == EngineSettings(
        endpoint="https://b.test", headers={"x-sdk-name": "mine"}
    )


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"TINYMEMORY_ENGINE": "mongo"}, "there is no engine `mongo`"),
        ({"TINYMEMORY_CORTEXDB_HEADERS": KEY}, "TINYMEMORY_CORTEXDB_HEADERS is no JSON object"),
        ({"TINYMEMORY_ENGINES": "[]"}, "TINYMEMORY_ENGINES is no JSON object"),
        ({"TINYMEMORY_ENGINES": f'{{"cortexdb": {{"token": "{KEY}"}}}}'}, "`token` looks like a credential"),
    ],
)
def test_a_malformed_variable_is_named_and_not_shown(environ: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        MemoryConfig.from_env(environ)

    assert said in caught.value.message
    assert KEY not in caught.value.message


# Profiles.


def test_a_profile_chooses_an_engine_over_the_settings_it_has() -> None:
    config = MemoryConfig.parse(SEED).with_profile({"engine": "cortexdb", "headers": {"x-sdk-name": "mine"}})

    assert config.engines["cortexdb"] == EngineSettings(
        endpoint="https://cortex.example.com", headers={"x-sdk-name": "mine"}
    )
    assert config.with_profile({"engine": "reference"}).engine == "reference"
    assert config.with_profile({"endpoint": "https://b.test"}).engine == "cortexdb"


@pytest.mark.parametrize("profile", [{"engine": "mongo"}, {"api_key": KEY}, {"engine": None}])
def test_a_malformed_profile_is_refused(profile: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        MemoryConfig.parse(SEED).with_profile(profile)

    assert KEY not in caught.value.message


# Building.


async def test_the_key_is_found_in_the_environment(hosted: CortexServer) -> None:
    hosted.knobs.accept_token = KEY
    config = MemoryConfig(
        engine="tinyhumans",
        engines={"tinyhumans": EngineSettings(endpoint=hosted.url, headers={"x-sdk-name": "mine"})},
    )

    async with config.build(environ={"TINYMEMORY_TINYHUMANS_API_KEY": KEY}) as engine:
        health = await engine.health()

    assert health.state == "ok"
    assert hosted.seen.headers[0]["x-sdk-name"] == "mine"


async def test_the_key_may_be_in_another_variable_or_come_from_a_function(hosted: CortexServer) -> None:
    settings = EngineSettings(endpoint=hosted.url, key_env="ACME_KEY")
    config = MemoryConfig(engine="tinyhumans", engines={"tinyhumans": settings})

    async def source() -> str:
        return "from-source"

    async with config.build(environ={"ACME_KEY": KEY}) as by_variable, config.build(source) as by_source:
        await by_variable.health()
        await by_source.health()

    assert hosted.seen.auth == [f"Bearer {KEY}", "Bearer from-source"]


def test_the_keys_at_hand_are_told_to_whoever_must_hide_them() -> None:
    config = MemoryConfig(engines={"cortexdb": EngineSettings(key_env="ACME_KEY")})
    environ = {"TINYMEMORY_TINYHUMANS_API_KEY": KEY, "ACME_KEY": "of-acme\n", "OTHER_KEY": "not ours"}

    assert config.keys(environ=environ) == {KEY, "of-acme"}
    assert config.keys(also=["OTHER_KEY"], environ=environ) == {KEY, "of-acme", "not ours"}


async def test_a_credential_may_be_a_value_of_its_own(hosted: CortexServer) -> None:
    config = MemoryConfig.parse({"engine": "tinyhumans", "engines": {"tinyhumans": {"endpoint": hosted.url}}})

    async with (
        config.build(EngineCredential.static(KEY)) as one,
        config.build(EngineCredential.source(lambda: "asked-for")) as other,
    ):
        await one.health()
        await other.health()

    assert hosted.seen.auth == [f"Bearer {KEY}", "Bearer asked-for"]


def test_a_missing_key_says_which_variable_to_set() -> None:
    with pytest.raises(ConfigError, match="set TINYMEMORY_CORTEXDB_API_KEY, or pass a credential"):
        MemoryConfig.parse(SEED).build(environ={})


async def test_the_embedded_engine_lives_in_the_data_dir_unless_told(elsewhere: Path) -> None:
    async with MemoryConfig(data_dir=elsewhere / "data").build() as engine:
        assert engine.descriptor.id == "sqlite"
        await engine.health()
    assert (elsewhere / "data" / "memory.db").is_file()

    settings = {"sqlite": EngineSettings(path=elsewhere / "other.db")}
    async with MemoryConfig(engines=settings).build() as engine:
        await engine.health()
    assert (elsewhere / "other.db").is_file()


def test_an_engine_without_a_key_needs_no_environment() -> None:
    assert isinstance(MemoryConfig(engine="reference").build(environ={}), ReferenceEngine)


@pytest.fixture
async def hosted() -> Any:
    async with cortex_server(wire="hosted") as server:
        yield server


def test_the_embedded_engine_takes_models_by_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODEL_KEY", "sk-of-the-model")
    settings = {
        "path": str(tmp_path / "memory.db"),
        "embedder": {"model": "small", "dimensions": 8, "endpoint": "http://127.0.0.1:1/v1"},
        "distiller": {"model": "chat", "endpoint": "http://127.0.0.1:1/v1", "key_env": "MODEL_KEY"},
    }

    engine = build_engine("sqlite", settings)

    assert "sk-of-the-model" not in repr(engine)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"embedder": {"model": "small"}}, "`dimensions`"),
        ({"distiller": {"model": "chat", "key_env": "NO_SUCH_KEY"}}, "NO_SUCH_KEY"),
        ({"distiller": {}}, "distiller.model"),
    ],
)
def test_a_model_that_lacks_something_is_refused_by_name(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        build_engine("sqlite", settings)
