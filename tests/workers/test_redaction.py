"""What of an error is kept, and what must not be."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinymemory.errors import UnauthorizedError, UnavailableError
from workers.redaction import MAX_MESSAGE, Redactor, secrets_in, secrets_of, without_password
from workers.settings import WorkerSettings


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("401 for Authorization: Bearer abc.def-123", "401 for Authorization: Bearer ***"),
        ('{"Authorization": "Basic dXNlcjpwYXNz"}', '{"Authorization": "Basic ***"}'),
        ("sent bearer s3cr3t; refused", "sent bearer ***; refused"),
        ("redis://:hunter2@10.0.0.1:6379/0 refused", "redis://***@10.0.0.1:6379/0 refused"),
        ("amqps://svc:p@ss/w0rd@mq.internal//", "amqps://***@mq.internal//"),
        ("GET https://x.test/a?api_key=abc123&limit=5", "GET https://x.test/a?api_key=***&limit=5"),
        ("key=abc, next", "key=***, next"),
        ("token: abc", "token: ***"),
        ("{'password': 'a b', 'user': 'u'}", "{'password': ***, 'user': 'u'}"),
        (r'{"client_secret":"a\"b","n":1}', '{"client_secret":***,"n":1}'),
        ("OPENAI_API_KEY=sk-abc", "OPENAI_API_KEY=***"),
        ("X-Api-Key: 12345", "X-Api-Key: ***"),
        ("used sk-proj-abcdefghijklmnop1234 twice", "used *** twice"),
        ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc", "jwt ***"),
    ],
)
def test_what_looks_like_a_credential_is_hidden(text: str, kept: str) -> None:
    assert Redactor().text(text) == kept


@pytest.mark.parametrize(
    "text",
    [
        "engine error: the index is locked",
        "see https://example.com/@people for who to ask",
        "max_tokens=100 is above the limit",
        "the monkey: it types",
        "unknown key: `limits`",
    ],
)
def test_what_is_no_credential_stays(text: str) -> None:
    assert Redactor().text(text) == text


def test_a_configured_secret_is_hidden_wherever_it_stands_in_whatever_spelling() -> None:
    redactor = Redactor(["tr0ub4dor&3", "pw"])

    assert redactor.text("xxtr0ub4dor&3xx and tr0ub4dor%263") == "xx***xx and ***"
    assert redactor.text("pw, but not spwan") == "***, but not spwan"


def test_the_engines_keys_are_known_wherever_they_come_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tinymemory.toml").write_text('[engines.cortexdb]\nkey_env = "ACME_KEY"\n')
    monkeypatch.setenv("ACME_KEY", "of-the-file")
    monkeypatch.setenv("ZEN_KEY", "of-a-profile")
    monkeypatch.setenv("TINYMEMORY_TINYHUMANS_API_KEY", "of-the-engine")

    settings = WorkerSettings(profiles={"zen": {"engine": "cortexdb", "key_env": "ZEN_KEY"}})

    assert secrets_of(settings) == {"of-the-file", "of-a-profile", "of-the-engine"}
    (tmp_path / "tinymemory.toml").write_text("[engines.mongo]\n")
    assert secrets_of(settings) == {"of-a-profile", "of-the-engine"}


def test_every_secret_of_the_settings_is_known() -> None:
    settings = WorkerSettings(
        redis_url="sentinel://:one1@a:26379;sentinel://:two2@b:26379/0?master=m&sentinel_password=three3",
        broker_url="amqp://user:four4@mq//",
        profiles={
            "hosted": {"api_key": "five5", "headers": {"x-token": "six6"}, "endpoint": "https://u:seven7@h"},
            "plain": {"engine": "sqlite", "keys": ["eight8"], "monkey": "banana"},
        },
    )

    assert secrets_of(settings) == {"one1", "two2", "three3", "four4", "five5", "six6", "seven7"}


def test_keys_that_are_read_from_the_environment_are_known() -> None:
    settings = WorkerSettings(profiles={"hosted": {"engine": "cortexdb", "key_env": "HOSTED"}})
    environ = {"TINYMEMORY_CORTEXDB_API_KEY": "k3y-one", "HOSTED": "k3y-two", "HOME": "/home/me"}

    assert secrets_in(settings, environ) == {"k3y-one", "k3y-two"}


def test_an_error_keeps_its_class_and_one_short_line_without_secrets() -> None:
    error = UnauthorizedError("rejected\n  for hunter2 — " + "x" * 1000)

    kept = Redactor(["hunter2"]).error(error)

    assert kept.kind == "UnauthorizedError"
    assert kept.message.startswith("unauthorized: rejected for *** — xxx")
    assert len(kept.message) == MAX_MESSAGE


def test_a_secret_at_the_cut_is_hidden_before_the_cut() -> None:
    error = UnavailableError("x" * (MAX_MESSAGE - 20) + " secret123456")

    assert "secr" not in Redactor(["secret123456"]).error(error).message


def test_an_error_without_a_message_is_named_by_its_class() -> None:
    assert Redactor().error(TimeoutError()).message == "TimeoutError"


def test_a_url_can_be_shown_without_its_password() -> None:
    assert without_password("redis://:hunter2@localhost/0") == "redis://***@localhost/0"


@given(st.text(max_size=200))
def test_redacting_twice_changes_nothing(text: str) -> None:
    redactor = Redactor(["hunter2"])
    once = redactor.text(text)

    assert redactor.text(once) == once


@given(st.text(max_size=40), st.text(max_size=40))
def test_no_configured_secret_survives(before: str, after: str) -> None:
    assert "hunter2" not in Redactor(["hunter2"]).text(f"{before}hunter2{after}")
