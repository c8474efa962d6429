"""What a run's error means: the one table from error classes to what the ledger is told."""

from tinymemory.errors import (
    ConfigError,
    ConflictError,
    InsufficientCreditsError,
    InvalidRequestError,
    NotFoundError,
    UnauthorizedError,
    UnavailableError,
    UnreachableError,
)
from workers.ledger import Failure, FailureKind
from workers.redaction import Redactor

RATE_LIMITED = "RATE_LIMITED"
"""The code of a hosted back-end's limit; its 429 may name no time at all."""


def failure_of(error: BaseException, redactor: Redactor) -> Failure:
    """What to tell the ledger about a run that ended with this error."""
    retry_after = error.retry_after if isinstance(error, UnavailableError) else None
    return Failure(failure_kind(error), redactor.error(error), retry_after)


def failure_kind(error: BaseException) -> FailureKind:
    """The error's kind; whatever is not known is an attempt that failed."""
    match error:
        case UnauthorizedError() | InsufficientCreditsError():
            return FailureKind.CREDENTIAL
        case UnreachableError():
            return FailureKind.UNREACHABLE
        case UnavailableError(retry_after=None, code=code) if code != RATE_LIMITED:
            return FailureKind.TRANSIENT
        case UnavailableError():
            # A rate limit, whether or not it says when to come back, is no fault of the job: sixty
            # documents under a limit of ten a minute would all be dead before the first minute is over.
            return FailureKind.THROTTLED
        case InvalidRequestError() | ConfigError() | ConflictError() | NotFoundError():
            return FailureKind.PERMANENT
        case _:
            return FailureKind.ATTEMPT
