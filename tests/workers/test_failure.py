"""Which error means what."""

import pytest

from tinymemory import errors
from workers.failure import failure_kind, failure_of
from workers.ledger import FailureKind
from workers.redaction import Redactor


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (errors.UnavailableError("timed out"), FailureKind.TRANSIENT),
        (errors.UnavailableError("429", retry_after=3.0), FailureKind.THROTTLED),
        (errors.UnavailableError("[RATE_LIMITED] 429"), FailureKind.THROTTLED),
        (errors.UnavailableError("[UPSTREAM_UNAVAILABLE] 503"), FailureKind.TRANSIENT),
        (errors.UnauthorizedError("expired"), FailureKind.CREDENTIAL),
        (errors.InsufficientCreditsError("402"), FailureKind.CREDENTIAL),
        (errors.UnreachableError("refused"), FailureKind.UNREACHABLE),
        (errors.UnreachableError("refused", retry_after=3.0), FailureKind.UNREACHABLE),
        (errors.InvalidRequestError("blank"), FailureKind.PERMANENT),
        (errors.ConfigError("no key"), FailureKind.PERMANENT),
        (errors.ConflictError("held"), FailureKind.PERMANENT),
        (errors.NotFoundError("gone"), FailureKind.PERMANENT),
        (errors.EngineError("failed"), FailureKind.ATTEMPT),
        (errors.UnsupportedError("not offered"), FailureKind.ATTEMPT),
        (TimeoutError(), FailureKind.ATTEMPT),
        (ValueError("unforeseen"), FailureKind.ATTEMPT),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_each_error_means_what_the_table_says(error: Exception, kind: FailureKind) -> None:
    assert failure_kind(error) is kind


def test_a_failure_carries_the_time_to_come_back_and_no_credential() -> None:
    error = errors.UnavailableError("429 for Bearer abcdef0123456789", retry_after=7.5)

    failure = failure_of(error, Redactor())

    assert failure.retry_after == 7.5
    assert failure.error.kind == "UnavailableError"
    assert "abcdef0123456789" not in failure.error.message
