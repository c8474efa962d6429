"""Zip archives that are not what they say: counted as they really unpack, before anything reads them."""

import io
import struct
import zipfile
import zlib
from collections.abc import Iterator

from tinymemory.documents.raw import ConversionLimits, DocumentError, RawDocument

_STEP = 64 * 1024
_LOCAL_HEADER = struct.Struct("<4s5H3I2H")
_MARKUP = (".xml", ".rels", ".xhtml", ".html", ".htm", ".opf", ".ncx", ".svg")
_UTF16 = ("utf-16-le", "utf-16-be")
_FORBIDDEN = tuple(word.encode(code) for word in ("<!ENTITY",) for code in ("ascii", *_UTF16))


def ensure_safe_archive(raw: RawDocument, limits: ConversionLimits) -> None:
    """Unpack every entry into nothing, counting.

    Raises:
        DocumentError: Too many entries or bytes, sizes that are forged, an entity declared in XML,
            an encrypted entry, or damage.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(raw.data)) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, ValueError, OverflowError):
        raise DocumentError(f"{raw.label}: the archive is damaged or cut off") from None
    if len(entries) > limits.archive_entries:
        raise _too_large(raw, f"{len(entries)} entries are more than {limits.archive_entries}")
    left = limits.unpacked_bytes
    for entry in entries:
        if entry.flag_bits & 1:
            raise DocumentError(
                f"{raw.label}: the file is encrypted; save it without a password", reason="encrypted"
            )
        left -= _ensure_safe_entry(raw, entry, left, limits)


def _ensure_safe_entry(raw: RawDocument, entry: zipfile.ZipInfo, left: int, limits: ConversionLimits) -> int:
    # Unpacked here and not by zipfile, which stops at the size the archive claims.
    packed = _packed(raw, entry)
    if entry.compress_type == zipfile.ZIP_STORED:
        chunks = iter((packed,))
    elif entry.compress_type == zipfile.ZIP_DEFLATED:
        chunks = _inflate(raw, packed)
    else:
        raise DocumentError(f"{raw.label}: the archive uses a compression office files do not")
    is_markup = entry.filename.lower().endswith(_MARKUP)
    size, tail = 0, b""
    for chunk in chunks:
        size += len(chunk)
        if size > left:
            raise _too_large(raw, f"it unpacks to more than {limits.unpacked_bytes} bytes")
        if is_markup and any(word in tail + chunk for word in _FORBIDDEN):
            raise DocumentError(f"{raw.label}: {entry.filename} declares XML entities, which are refused")
        tail = chunk[-32:]
    if size != entry.file_size:
        raise _too_large(raw, f"{entry.filename} unpacks to {size} bytes and claims {entry.file_size}")
    return size


def _packed(raw: RawDocument, entry: zipfile.ZipInfo) -> bytes:
    try:
        header = _LOCAL_HEADER.unpack_from(raw.data, entry.header_offset)
    except struct.error:
        raise DocumentError(f"{raw.label}: the archive is damaged or cut off") from None
    start = entry.header_offset + _LOCAL_HEADER.size + header[9] + header[10]
    packed = raw.data[start : start + entry.compress_size]
    if header[0] != b"PK\x03\x04" or len(packed) < entry.compress_size:
        raise DocumentError(f"{raw.label}: the archive is damaged or cut off")
    return packed


def _inflate(raw: RawDocument, packed: bytes) -> Iterator[bytes]:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    pending = packed
    try:
        while not inflater.eof:
            chunk = inflater.decompress(pending, _STEP)
            pending = inflater.unconsumed_tail
            if not chunk and not pending:
                return
            yield chunk
    except zlib.error:
        raise DocumentError(f"{raw.label}: the archive is damaged or cut off") from None


def _too_large(raw: RawDocument, why: str) -> DocumentError:
    return DocumentError(f"{raw.label}: the archive is too large: {why}", reason="archive-too-large")
