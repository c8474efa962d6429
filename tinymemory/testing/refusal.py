"""How a loopback server says no."""


class RefusalError(Exception):
    """A request that is answered with a failure: its status, its code, and words for a person."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


class FaultError(RefusalError):
    """A failure the hosted back-end does not translate: its own, or one that a knob asked for."""


class RateLimitedError(FaultError):
    """A 429; on the hosted wire it is answered outside the envelope."""

    def __init__(self) -> None:
        super().__init__(429, "RATE_LIMITED", "too many requests")


def invalid_body(message: str) -> RefusalError:
    """A body that does not fit the closed schema."""
    return RefusalError(422, "INVALID_BODY", message)
