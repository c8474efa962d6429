import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinymemory.brain_input import BrainDocument
from tinymemory.documents.scrub import Mark, scrub, scrub_text
from tinymemory.items import Conversation, Document, Learning, Role, Turn

SECRETS = [
    (Mark.PHONE, "+351 912 345 678"),
    (Mark.PHONE, "+49 30 901820"),
    (Mark.IBAN, "DE89 3704 0044 0532 0130 00"),
    (Mark.IBAN, "GB82WEST12345698765432"),
    (Mark.CARD, "4111 1111 1111 1111"),
    (Mark.CARD, "5555-5555-5555-4444"),
    (Mark.EMAIL, "ann.lee+news@mail.example.com"),
    (Mark.TOKEN, "ghp_" + "a1B2" * 9),
    (Mark.TOKEN, "AKIAIOSFODNN7EXAMPLE"),
    (Mark.TOKEN, "sk-proj-" + "Zx9" * 8),
    (Mark.JWT, "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.SflKxwRJSMeKKF2QT4fw"),
    (Mark.PRIVATE_KEY, "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----"),
]
HARMLESS = [
    "order 5500301 of 2026-05-14 at 10:30",
    "192.168.1.254 and version 1.2.3.4",
    "ISBN 978-3-16-148410-0",
    "thread-5c1f7a2e-93b4-4d08-a6c7-e2d41b0f9a63",
    "12 24 36 48 60 72 84 96",
    "the range 100-200-300 and 3.14159265358979",
    "card 4111 1111 1111 1112 fails its check",
    "DE89 3704 0044 0532 0130 01 is no account",
    "commit 7e12345678cd, sha256 9f068f017a8acddefea299bd83fc60f5",
    "password: required",
    "the @decorator and user@localhost",
    "1,234,567,890,123 inhabitants; 00:11:22:33:44:55",
    "on 12.05.2026 at 10.30, 49 euros and 79 euros",
]


@pytest.mark.parametrize(("mark", "secret"), SECRETS)
def test_a_secret_is_replaced_by_its_mark(mark: Mark, secret: str) -> None:
    text, scrubbed = scrub_text(f"before {secret} after")

    assert text == f"before [{mark}] after"
    assert scrubbed.counts == {mark: 1}


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_looks_like_one_stays(text: str) -> None:
    assert scrub_text(text) == (text, scrub_text("")[1])


def test_a_named_password_and_one_in_a_url_are_replaced() -> None:
    text, scrubbed = scrub_text("api_key = abcDEF123456\npostgres://app:hunter22@db/orders")

    assert text == "api_key = [password]\npostgres://app:[password]@db/orders"
    assert scrubbed.total == 2


def test_every_text_of_an_item_is_scrubbed_and_its_metadata_stays() -> None:
    mail = "ann@example.com"
    document, _ = scrub(Document(title=f"for {mail}", body=f"to {mail}"))  # pyright: ignore[reportArgumentType]  # a string is a body
    conversation, found = scrub(
        Conversation(turns=(Turn(role=Role.USER, text=mail), Turn(role=Role.ASSISTANT, text=f"hi {mail}")))
    )
    learning, _ = scrub(Learning(text=f"reach her at {mail}"))
    brain, _ = scrub(BrainDocument("pdf", f"see {mail}", title=mail))

    assert (document.title, document.body.text) == ("for [email]", "to [email]")
    assert [turn.text for turn in conversation.turns] == ["[email]", "hi [email]"]
    assert found.counts == {Mark.EMAIL: 2}
    assert learning.text == "reach her at [email]"
    assert (brain.title, brain.text) == ("[email]", "see [email]")


@given(st.text(max_size=300))
def test_scrubbing_twice_changes_nothing_more(text: str) -> None:
    once, _ = scrub_text(text)

    assert scrub_text(once)[0] == once
