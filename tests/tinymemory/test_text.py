"""White space is Unicode's White_Space property, no more and no less; first sentences are of the prose."""

import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinymemory.text import WHITE_SPACE, first_sentence, is_blank, trimmed

SPACES = {
    *range(0x09, 0x0E),
    0x20,
    0x85,
    0xA0,
    0x1680,
    *range(0x2000, 0x200B),
    0x2028,
    0x2029,
    0x202F,
    0x205F,
    0x3000,
}


def test_white_space_is_the_unicode_property_over_all_characters() -> None:
    assert set(map(ord, WHITE_SPACE)) == SPACES
    assert {point for point in range(sys.maxunicode + 1) if is_blank(chr(point))} == SPACES


@pytest.mark.parametrize("separator", ["\x1c", "\x1d", "\x1e", "\x1f", "\u200b", "\ufeff"])
def test_what_python_or_the_eye_takes_for_space_is_kept(separator: str) -> None:
    assert not is_blank(separator)
    assert trimmed(f" {separator}a{separator}\u3000") == f"{separator}a{separator}"


@given(st.text(alphabet=[*WHITE_SPACE, "a", "\x1c", "é"]))
def test_a_trimmed_text_starts_and_ends_with_something_else(text: str) -> None:
    kept = trimmed(text)

    assert kept in text
    assert is_blank(text) == (kept == "")
    assert kept == "" or (kept[0] not in WHITE_SPACE and kept[-1] not in WHITE_SPACE)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("Refunds take five days. Then they lapse.", "Refunds take five days."),
        ("# Policy\n\nRefunds take\nfive days! Yes.", "Refunds take five days!"),
        ("Policy\n======\nIs 3.5 enough? No.", "Is 3.5 enough?"),
        ("---\ntitle: Policy\n---\n\nPay now. Or never.", "Pay now."),
        ("- Call Ann. Then Bo.", "Call Ann."),
        ("1. Call Ann\n2. Call Bo", "Call Ann Call Bo"),
        ('He said "no." Then left.', 'He said "no."'),
        ("no end\n\nsecond paragraph.", "no end"),
        ("## Only a heading", "Only a heading"),
        ("# Kit\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n\nIt cools. Fast.", "It cools."),
        ("a | b\n--- | ---\n1 | 2\n\nIt cools.", "It cools."),
        ("| only | cells |", "only   cells"),
        ("```\nrun. now.\n```\nRun it daily.", "Run it daily."),
        ("~~~\nnever closed. at all", "never closed."),
        ("<!-- draft. -->\n[![build](x.svg)](y)\n\nIt builds.", "It builds."),
        ("---\r\ntitle: Policy. Old.\r\n---\r\n# Policy\r\n\r\nPay now.\r\n", "Pay now."),
        ("* * *\n\n- [x] Pay now.", "Pay now."),
        (" \n\u3000", None),
        ("", None),
    ],
)
def test_the_first_sentence_is_that_of_the_prose(text: str, sentence: str | None) -> None:
    assert first_sentence(text, limit=240) == sentence


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("Supplier guide\n\nFish is delivered\ndaily. So is milk.", "Fish is delivered daily."),
        ("Guide\n\nby Ann Lee\n\nFish is fresh.", "Fish is fresh."),
        ("Fish is fresh.\n\nMilk is too.", "Fish is fresh."),
        ("Only a title", "Only a title"),
        ("Title\n\nanother", "Title"),
    ],
)
def test_a_title_line_is_no_prose(text: str, sentence: str) -> None:
    assert first_sentence(text, limit=240, is_titled=True) == sentence


def test_no_text_takes_long() -> None:
    for part in ("|", "<!--", "```\n", "- ", "-", "=", "* * * ", "#", "a|\n-|", "![", "---\na:\n", ". "):
        text = part * (200_000 // len(part))

        started = time.process_time()
        first_sentence(text, limit=240, is_titled=True)

        assert time.process_time() - started < 2, part


@given(st.text(), st.integers(1, 50))
def test_a_first_sentence_is_one_line_within_its_limit(text: str, limit: int) -> None:
    found = first_sentence(text, limit=limit)

    assert (found is None) or (0 < len(found) <= limit and len(found.splitlines()) == 1)
