"""How commands end: one set of exit codes, for every command of every part."""

from enum import IntEnum

from tinymemory.errors import (
    ConfigError,
    InvalidRequestError,
    NotFoundError,
    TinyMemoryError,
    UnavailableError,
)


class ExitCode(IntEnum):
    """What a script can tell from a command's end; from 64 on the numbers are those of sysexits.h."""

    OK = 0
    FAILED = 1
    """Something that was asked for did not succeed."""
    USAGE = 2
    """The command line, or a value on it, is malformed."""
    NOT_FOUND = 4
    UNREACHABLE = 75
    """Redis, the broker or the engine did not answer, and nothing was submitted: try again later."""
    CONFIG = 78
    INTERRUPTED = 130
    BROKEN_PIPE = 141

    @classmethod
    def of(cls, error: TinyMemoryError) -> "ExitCode":
        """The code of a command that fails with this error."""
        match error:
            case ConfigError():
                return cls.CONFIG
            case InvalidRequestError():
                return cls.USAGE
            case NotFoundError():
                return cls.NOT_FOUND
            case UnavailableError():
                return cls.UNREACHABLE
            case _:
                return cls.FAILED
