"""A file as it comes in, what it may at the most be, and why it cannot be used."""

from dataclasses import dataclass

from pydantic import BaseModel, Field

from tinymemory.errors import InvalidRequestError
from tinymemory.model import VALUE

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class RawDocument:
    """The bytes of a file and what is said of them."""

    data: bytes
    name: str | None = None
    """A file name or path; shown in errors, and its ending counts when nothing better tells the format."""
    mime: str | None = None
    """The type a sender declared; the bytes themselves win over it."""

    @property
    def label(self) -> str:
        """What errors call it."""
        return self.name or "the document"


class ConversionLimits(BaseModel):
    """What one file may cost."""

    model_config = VALUE

    file_bytes: int = Field(default=32 * MIB, ge=1)
    unpacked_bytes: int = Field(default=64 * MIB, ge=1)
    """Of all parts of an archive together, as they really unpack."""
    archive_entries: int = Field(default=4096, ge=1)
    cells: int = Field(default=1_000_000, ge=1)
    """Of all sheets of a workbook together."""
    seconds: float = Field(default=60.0, gt=0)
    memory_bytes: int = Field(default=1024 * MIB, ge=64 * MIB)
    """Address space of the process that converts."""


class DocumentError(InvalidRequestError):
    """A file that cannot be made a document; the message names it.

    `reason` is for programs: unknown-format, too-large, archive-too-large, encrypted, no-text,
    malformed, timed-out or unsupported.
    """

    def __init__(self, message: str, *, reason: str = "malformed", code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.reason = reason


def ensure_size(raw: RawDocument, limits: ConversionLimits) -> None:
    """Raise `DocumentError` for an empty file, or one above the limit."""
    if not raw.data:
        raise DocumentError(f"{raw.label}: the file is empty", reason="no-text")
    if len(raw.data) > limits.file_bytes:
        raise DocumentError(
            f"{raw.label}: {len(raw.data)} bytes are more than the {limits.file_bytes} a file may have",
            reason="too-large",
        )
