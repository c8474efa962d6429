"""Ids that hold a phone number, by the table of the wire's own page."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinymemory.redaction import holds_phone_number, redacted, same_id

NUMBERS = [
    "channel:whatsapp_+15550142377_+15550142377",
    "channel:whatsapp_15550142377@s.whatsapp.net_reply",
    "channel:sms_15550142377",
    "+1 (555) 014-2377",
    "555.014.2377",
    "ring 555-0142 later",
]
NO_NUMBERS = [
    "thread-5c1f7a2e-93b4-4d08-a6c7-e2d41b0f9a63",
    "thread-98765432-1234-1234-1234-987654321098",
    "channel:email_ann.lee@example.com_inbox",
    "channel:email_ann5550142@example.com_inbox",
    "channel:slack_U07XYZ123_C09QRS456",
    "commit 7e12345678cd",
    "b2c3d4e5f6",
    "t-9",
    "",
]


@pytest.mark.parametrize("value", NUMBERS)
def test_a_phone_number_is_seen_and_replaced_by_its_digest(value: str) -> None:
    assert holds_phone_number(value)
    assert redacted(value).startswith("tm-redacted:")
    assert len(redacted(value)) == len("tm-redacted:") + 32


@pytest.mark.parametrize("value", NO_NUMBERS)
def test_what_is_no_phone_number_stays(value: str) -> None:
    assert not holds_phone_number(value)
    assert redacted(value) == value


@pytest.mark.parametrize(
    ("value", "digest"),
    [
        ("+1 (555) 014-2377", "9a84ef98e8ce63c8cff2f9798a41300c"),
        ("channel:whatsapp_+15550142377_+15550142377", "3865328fbc60e581ac7a46f301dacfbd"),
    ],
)
def test_the_digest_is_the_one_other_libraries_write(value: str, digest: str) -> None:
    assert redacted(value) == f"tm-redacted:{digest}"


@given(st.text(alphabet="0123456789 -.()+ab:_\ud800é", max_size=40))
def test_redacting_twice_changes_nothing(value: str) -> None:
    assert redacted(redacted(value)) == redacted(value)
    assert same_id(value, value)
    assert same_id(redacted(value), value)


def test_another_id_and_no_id_are_not_the_same() -> None:
    assert not same_id(None, "t-9")
    assert not same_id("t-8", "t-9")
    assert not same_id("channel:sms_15550142377", redacted("channel:sms_15550142377"))
