"""Which format a file is in: its bytes say first, then the declared type, then its name."""

import io
import re
import zipfile
from enum import StrEnum
from pathlib import PurePath

from tinymemory.brain import BrainSource
from tinymemory.documents.raw import DocumentError, RawDocument


class Format(StrEnum):
    """What can be converted."""

    MARKDOWN = "markdown"
    TEXT = "text"
    CODE = "code"
    HTML = "html"
    PDF = "pdf"
    DOCX = "docx"
    PPTX = "pptx"
    XLSX = "xlsx"
    CSV = "csv"
    EML = "eml"
    EPUB = "epub"

    @property
    def mime(self) -> str:
        """The registered media type; text/plain where there is none."""
        return _MIME.get(self, "text/plain")

    @property
    def source(self) -> BrainSource:
        """The brain's source a file of this format is filed under, unless it is told another."""
        return BrainSource(_SOURCE.get(self, "files"))


_OFFICE = "application/vnd.openxmlformats-officedocument"
_MIME = {
    Format.MARKDOWN: "text/markdown",
    Format.HTML: "text/html",
    Format.PDF: "application/pdf",
    Format.DOCX: f"{_OFFICE}.wordprocessingml.document",
    Format.PPTX: f"{_OFFICE}.presentationml.presentation",
    Format.XLSX: f"{_OFFICE}.spreadsheetml.sheet",
    Format.CSV: "text/csv",
    Format.EML: "message/rfc822",
    Format.EPUB: "application/epub+zip",
}
_SOURCE = {Format.MARKDOWN: "markdown", Format.PDF: "pdf", Format.HTML: "web"}
_BY_MIME = {mime: format_ for format_, mime in _MIME.items()} | {
    "text/x-markdown": Format.MARKDOWN,
    "application/xhtml+xml": Format.HTML,
    "text/tab-separated-values": Format.CSV,
    "application/csv": Format.CSV,
}
_BY_ENDING = {
    "md": Format.MARKDOWN,
    "markdown": Format.MARKDOWN,
    "txt": Format.TEXT,
    "text": Format.TEXT,
    "log": Format.TEXT,
    "rst": Format.TEXT,
    "html": Format.HTML,
    "htm": Format.HTML,
    "xhtml": Format.HTML,
    "csv": Format.CSV,
    "tsv": Format.CSV,
    "eml": Format.EML,
}
# fmt: off
_CODE_ENDINGS = frozenset({
    "bash", "c", "cc", "cfg", "clj", "cpp", "cs", "css", "cxx", "dart", "el", "erl", "ex", "exs", "go",
    "gradle", "graphql", "h", "hpp", "hs", "ini", "ipynb", "java", "jl", "js", "json", "jsx", "kt",
    "lua", "m", "mjs", "ml", "php", "pl", "proto", "ps1", "py", "pyi", "r", "rb", "rs", "sass", "scala",
    "scss", "sh", "sql", "swift", "tf", "toml", "ts", "tsx", "vim", "vue", "xml", "yaml", "yml", "zig",
    "zsh",
})
# fmt: on
_CODE_NAMES = frozenset({"dockerfile", "makefile", "justfile", "rakefile", "gemfile", "cmakelists.txt"})
_NEEDS_CERTAIN_BYTES = frozenset({".pdf", ".docx", ".pptx", ".xlsx", ".epub", ".doc", ".ppt", ".xls"})
_PARTS = {
    "word/document.xml": Format.DOCX,
    "ppt/presentation.xml": Format.PPTX,
    "xl/workbook.xml": Format.XLSX,
    "META-INF/container.xml": Format.EPUB,
}
_ENCRYPTED_OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_BINARY = {
    b"\x89PNG": "a PNG picture",
    b"\xff\xd8\xff": "a JPEG picture",
    b"GIF8": "a GIF picture",
    b"\x1f\x8b": "a gzip archive",
    b"7z\xbc\xaf": "a 7-Zip archive",
    b"Rar!": "a RAR archive",
    b"\x7fELF": "a program",
    b"MZ": "a program",
    b"{\\rtf": "an RTF file",
    b"SQLite format 3": "a SQLite database",
}
_HTML_START = re.compile(
    rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html[\s>])", re.I | re.S
)
_MAIL_START = re.compile(rb"(?:[A-Za-z][A-Za-z0-9-]*:[^\n]*\n(?:[ \t][^\n]*\n)*){2,}\r?\n", re.M)
_MAIL_FIELDS = re.compile(rb"^(?:from|received|message-id|return-path|mime-version):", re.I | re.M)


def detect_format(raw: RawDocument) -> Format:
    """The format of a file.

    Raises:
        DocumentError: It is none that can be converted; the message says what it is, when that is plain.
    """
    return _by_bytes(raw) or _by_mime(raw.mime) or _by_name(raw.name) or _as_text(raw)


def _by_bytes(raw: RawDocument) -> Format | None:
    head = raw.data[:4096]
    declared = _by_mime(raw.mime) or _by_name(raw.name)
    # Readers allow for up to 1,024 bytes before the header; a text may be about PDF, though.
    if head.startswith(b"%PDF-") or (declared not in _PLAIN and b"%PDF-" in head[:1024]):
        return Format.PDF
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _by_parts(raw)
    if head.startswith(_ENCRYPTED_OFFICE):
        raise DocumentError(*_old_or_encrypted(raw))
    for magic, what in _BINARY.items():
        if head.startswith(magic) and (magic != b"MZ" or b"\0" in head):  # it begins words, too
            raise DocumentError(f"{raw.label}: {what} cannot be made text", reason="unknown-format")
    if _HTML_START.match(head):
        return Format.HTML
    if b"\0" in head and not head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DocumentError(f"{raw.label}: a binary file that cannot be converted", reason="unknown-format")
    if declared in (None, Format.EML) and _MAIL_START.match(head) and _MAIL_FIELDS.search(head):
        return Format.EML
    # What needs certain bytes and does not have them is mislabelled: its name must not send it there.
    return declared if declared in _PLAIN else None


def _by_parts(raw: RawDocument) -> Format:
    try:
        with zipfile.ZipFile(io.BytesIO(raw.data)) as archive:
            names = set(archive.namelist())
    except (zipfile.BadZipFile, ValueError, OverflowError):
        raise DocumentError(f"{raw.label}: the archive is damaged or cut off") from None
    for part, format_ in _PARTS.items():
        if part in names:
            return format_
    raise DocumentError(
        f"{raw.label}: a zip archive that is no docx, pptx, xlsx or epub; ingest the files in it",
        reason="unknown-format",
    )


_PLAIN = frozenset({Format.MARKDOWN, Format.TEXT, Format.CODE, Format.HTML, Format.CSV, Format.EML})


def _by_mime(mime: str | None) -> Format | None:
    found = _BY_MIME.get((mime or "").partition(";")[0].strip().lower())
    return found if found in _PLAIN else None


def _by_name(name: str | None) -> Format | None:
    path = PurePath((name or "").replace("\\", "/"))
    ending = path.suffix.lower().lstrip(".")
    if ending in _CODE_ENDINGS or path.name.lower() in _CODE_NAMES:
        return Format.CODE
    return _BY_ENDING.get(ending)


def _as_text(raw: RawDocument) -> Format:
    ending = PurePath(raw.name or "").suffix.lower()
    if ending in _NEEDS_CERTAIN_BYTES:
        raise DocumentError(
            f"{raw.label}: its content is not that of a {ending} file; give it the right name",
            reason="malformed",
        )
    return Format.TEXT


def _old_or_encrypted(raw: RawDocument) -> tuple[str]:
    # An encrypted OOXML file and a file of Office 97 share the container; the stream names tell.
    if "EncryptedPackage".encode("utf-16-le") in raw.data:
        error = f"{raw.label}: the file is encrypted; save it without a password"
    else:
        error = f"{raw.label}: the file is in a format of Office 97; save it as docx, pptx or xlsx"
    return (error,)
