"""Errors: their kinds, their codes, and what survives a process border."""

import copy
import pickle

import pytest

from tinymemory import (
    ConfigError,
    ConflictError,
    EngineError,
    InsufficientCreditsError,
    InvalidRequestError,
    NotFoundError,
    TinyMemoryError,
    UnauthorizedError,
    UnavailableError,
    UnreachableError,
    UnsupportedError,
)

WIRE_KINDS: list[tuple[type[TinyMemoryError], str, bool]] = [
    (UnsupportedError, "unsupported", False),
    (InvalidRequestError, "invalid request", False),
    (UnauthorizedError, "unauthorized", False),
    (NotFoundError, "not found", False),
    (ConflictError, "conflict", False),
    (UnavailableError, "unavailable", True),
    (UnreachableError, "unavailable", True),
    (EngineError, "engine error", False),
    (InsufficientCreditsError, "engine error", False),
    (ConfigError, "configuration error", False),
]


@pytest.mark.parametrize(("kind", "wire_kind", "is_transient"), WIRE_KINDS)
def test_an_error_is_its_wire_kind_and_its_message(
    kind: type[TinyMemoryError], wire_kind: str, is_transient: bool
) -> None:
    error = kind("the train is late")

    assert str(error) == f"{wire_kind}: the train is late"
    assert error.is_transient is is_transient


def test_the_base_class_is_its_message_alone() -> None:
    assert str(TinyMemoryError("the train is late")) == "the train is late"
    assert TinyMemoryError("the train is late").is_transient is False


@pytest.mark.parametrize("kind", [TinyMemoryError, *(kind for kind, _, _ in WIRE_KINDS)])
def test_an_error_comes_through_pickle_and_copy_whole(kind: type[TinyMemoryError]) -> None:
    error = kind("[SOME_CODE] the train is late", code="OTHER")
    error.add_note("seen at the platform")

    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(twin) is kind
        assert twin == error
        assert hash(twin) == hash(error)
        assert (str(twin), twin.code, twin.is_transient) == (str(error), "OTHER", error.is_transient)


def test_the_seconds_to_stay_away_come_through_pickle() -> None:
    assert pickle.loads(pickle.dumps(UnavailableError("busy", retry_after=2.5))).retry_after == 2.5
    assert pickle.loads(pickle.dumps(UnavailableError("busy", 2.5))).retry_after == 2.5
    assert pickle.loads(pickle.dumps(UnreachableError("gone"))).retry_after is None


def test_errors_are_equal_by_class_and_message() -> None:
    assert NotFoundError("a") == NotFoundError("a")
    assert NotFoundError("a") != NotFoundError("b")
    assert NotFoundError("a") != ConflictError("a")
    assert UnavailableError("a") != UnreachableError("a")
    assert NotFoundError("a") != ValueError("a")


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("[RATE_LIMITED] slow down", "RATE_LIMITED"),
        ("[HTTP_418] teapot", "HTTP_418"),
        ("slow down [RATE_LIMITED] please", None),
        ("[rate] slow down", None),
        ("[RATE]slow down", None),
        ("slow down", None),
    ],
)
def test_a_code_is_read_from_the_head_of_the_message_only(message: str, code: str | None) -> None:
    assert EngineError(message).code == code


def test_being_out_of_credits_has_its_code_unless_another_is_named() -> None:
    assert InsufficientCreditsError("pay").code == "USER_INSUFFICIENT_CREDITS"
    assert InsufficientCreditsError("[PLAN_ENDED] pay").code == "PLAN_ENDED"
    assert InsufficientCreditsError("pay", code="PLAN_ENDED").code == "PLAN_ENDED"
    assert EngineError("pay").code is None


def test_the_classes_nest_as_a_caller_catches_them() -> None:
    assert issubclass(UnreachableError, UnavailableError)
    assert issubclass(InsufficientCreditsError, EngineError)
    assert not issubclass(ConfigError, EngineError)
    assert all(issubclass(kind, TinyMemoryError) for kind, _, _ in WIRE_KINDS)
