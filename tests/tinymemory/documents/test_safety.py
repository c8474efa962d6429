import io
import os
import signal
import struct
import time
import zipfile
from pathlib import Path

import pytest

from tinymemory.documents import (
    ConversionLimits,
    Converters,
    DocumentError,
    Format,
    RawDocument,
    brain_document,
    detect_format,
)
from tinymemory.documents.sandbox import Sandbox

CORPUS = Path(__file__).parent / "corpus"
DOCX = (CORPUS / "docx/observatory.pandoc.docx").read_bytes()
MIB = 1 << 20


def docx_with(**parts: bytes) -> bytes:
    return package_with(DOCX, **parts)


def package_with(package: bytes, /, **parts: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(package)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            if entry.filename not in parts:
                new.writestr(entry, old.read(entry))
        for name, data in parts.items():
            new.writestr(name, data)
    return out.getvalue()


def a_bomb(size: int = 100 * MIB) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b"<w:document/>")
        with archive.open("word/media/filler.bin", "w", force_zip64=True) as part:
            for _ in range(size // MIB):
                part.write(bytes(MIB))
    return out.getvalue()


def with_forged_sizes(archive: bytes) -> bytes:
    """The same, each entry of its directory claiming to unpack to ten bytes."""
    forged = bytearray(archive)
    position = 0
    while (position := forged.find(b"PK\x01\x02", position)) >= 0:
        forged[position + 24 : position + 28] = struct.pack("<I", 10)
        position += 4
    return bytes(forged)


async def refused(converters: Converters, data: bytes, name: str, mime: str | None = None) -> DocumentError:
    with pytest.raises(DocumentError) as caught:
        await brain_document(converters, RawDocument(data, name, mime))
    assert name in caught.value.message
    return caught.value


@pytest.fixture(scope="module")
def bomb() -> bytes:
    return a_bomb()


@pytest.mark.parametrize("name", ["bomb.docx", "bomb.doc", "forged.docx"])
async def test_r62_an_archive_that_unpacks_to_too_much_is_refused_within_seconds(
    converters: Converters, bomb: bytes, name: str
) -> None:
    data = with_forged_sizes(bomb) if name == "forged.docx" else bomb
    started = time.monotonic()

    error = await refused(converters, data, name)

    assert error.reason == "archive-too-large"
    assert time.monotonic() - started < 30


async def test_r62_thousands_of_tiny_entries_are_refused(converters: Converters) -> None:
    parts = {f"word/part{number}.xml": b"<x/>" for number in range(5000)}

    assert (await refused(converters, docx_with(**parts), "many.docx")).reason == "archive-too-large"


async def test_r64_what_holds_no_text_is_refused(converters: Converters) -> None:
    assert (await refused(converters, a_pdf(pages=3), "scan.pdf")).reason == "no-text"
    assert (await refused(converters, b"", "empty.txt")).reason == "no-text"
    assert (await refused(converters, b" \n\t\n ", "blank.md")).reason == "no-text"


async def test_r64_a_half_scanned_pdf_says_how_much_of_it_was_read(converters: Converters) -> None:
    raw = RawDocument(a_pdf(pages=20, with_text=5), "half.pdf")

    document = await brain_document(converters, raw)

    assert "page with text" in document.text
    assert "coverage:5/20" in document.meta.tags


async def test_entities_are_refused_where_they_are_declared(converters: Converters) -> None:
    laughs = (
        b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>'
        b'<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">&b;</w:document>'
    )
    outside = laughs.replace(b'<!ENTITY a "ha">', b'<!ENTITY a SYSTEM "file:///etc/hostname">')

    for xml in (laughs, outside, laughs.decode().encode("utf-16")):
        error = await refused(converters, docx_with(**{"word/document.xml": xml}), "laughs.docx")
        assert "entities" in error.message


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("pptx/observatory.pptx", "ppt/presentation.xml"),
        ("xlsx/suppliers.xlsx", "xl/workbook.xml"),
        ("epub/observatory.epub", "META-INF/container.xml"),
    ],
)
async def test_entities_are_refused_in_every_kind_of_package(
    converters: Converters, path: str, part: str
) -> None:
    bomb = b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/hostname">]><x>&a;</x>'
    data = package_with((CORPUS / path).read_bytes(), **{part: bomb})

    assert "entities" in (await refused(converters, data, Path(path).name)).message


async def test_macros_are_refused(converters: Converters) -> None:
    data = docx_with(**{"word/vbaProject.bin": b"\xd0\xcf\x11\xe0"})

    assert "macros" in (await refused(converters, data, "macro.docm")).message


async def test_encrypted_files_are_said_to_be(converters: Converters) -> None:
    office = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(512) + "EncryptedPackage".encode("utf-16-le")

    assert "encrypted" in (await refused(converters, office, "locked.docx")).message
    assert (await refused(converters, AN_ENCRYPTED_PDF, "locked.pdf")).reason == "encrypted"


@pytest.mark.parametrize(
    "path",
    [
        "docx/observatory.pandoc.docx",
        "pptx/observatory.pptx",
        "xlsx/suppliers.xlsx",
        "epub/observatory.epub",
        "pdf/bahnhof.browser.pdf",
    ],
)
async def test_a_file_that_is_cut_off_is_refused(converters: Converters, path: str) -> None:
    data = (CORPUS / path).read_bytes()

    await refused(converters, data[: len(data) // 3], Path(path).name)


@pytest.mark.parametrize(
    ("data", "name", "says"),
    [
        (b"\x89PNG\r\n\x1a\n" + bytes(64), "picture.pdf", "PNG"),
        (b"just some words", "report.pdf", ".pdf"),
        (b"just some words", "report.docx", ".docx"),
        (b"\x00\x01\x02\x03" * 64, "data", "binary"),
        (b"\x00\x01\x02\x03" * 64, "notes.md", "binary"),
        (b"MZ\x90\x00" * 64, "notes.txt", "program"),
        (b"\x1f\x8b" + bytes(64), "dump.txt", "gzip"),
    ],
)
async def test_a_mislabelled_file_is_named_for_what_it_is(
    converters: Converters, data: bytes, name: str, says: str
) -> None:
    assert says in (await refused(converters, data, name)).message


async def test_the_content_decides_and_not_the_name(converters: Converters) -> None:
    document = await brain_document(converters, RawDocument(DOCX, "really-word.pdf", "application/pdf"))

    assert "Ostrava" in document.text


@pytest.mark.parametrize(
    ("data", "mime", "name", "format_"),
    [
        (b"%PDF-1.7\n", "text/html", "page.html", Format.PDF),
        (b"a,b\n", "text/csv", "notes.md", Format.CSV),
        (b"a,b\n", "text/csv; charset=utf-8", None, Format.CSV),
        (b"# Notes\n", "application/octet-stream", "notes.md", Format.MARKDOWN),
        (b"words\n", None, None, Format.TEXT),
        (b"<!doctype html><p>words", None, "page.txt", Format.HTML),
        (b"all: build\n", None, "Makefile", Format.CODE),
        (b"A file of the kind begins with %PDF-1.7.\n", None, "notes.md", Format.MARKDOWN),
        (b"junk before it\n%PDF-1.7\n", None, "scan.pdf", Format.PDF),
        (b"MZ 250, a motorcycle\n", None, None, Format.TEXT),
    ],
)
def test_the_bytes_say_the_format_then_the_declared_type_then_the_name(
    data: bytes, mime: str | None, name: str | None, format_: Format
) -> None:
    assert detect_format(RawDocument(data, name, mime)) is format_


@pytest.mark.parametrize(
    ("path", "format_"),
    [
        ("docx/observatory.pandoc.docx", Format.DOCX),
        ("pptx/observatory.pptx", Format.PPTX),
        ("xlsx/suppliers.xlsx", Format.XLSX),
        ("epub/observatory.epub", Format.EPUB),
    ],
)
def test_packages_are_told_apart_by_their_parts(path: str, format_: Format) -> None:
    data = (CORPUS / path).read_bytes()

    assert detect_format(RawDocument(data, "upload.zip", "application/zip")) is format_


async def test_what_takes_too_long_is_ended_and_the_next_file_goes_on() -> None:
    limits = ConversionLimits(seconds=0.001)
    async with Converters(limits, processes=1) as converters:
        assert (await refused(converters, DOCX, "slow.docx")).reason == "timed-out"
        assert "words" in (await brain_document(converters, RawDocument(b"some words", "next.txt"))).text


async def test_what_needs_too_much_memory_is_refused_and_the_next_file_goes_on() -> None:
    limits = ConversionLimits(memory_bytes=300 * MIB)
    async with Converters(limits, processes=1) as converters:
        deep = b"<html><body>" + b"<p>word <b>word</b></p>" * 900_000 + b"</body></html>"

        assert (await refused(converters, deep, "heavy.html")).reason == "too-large"
        assert "words" in (await brain_document(converters, RawDocument(b"<p>words", "next.html"))).text


async def test_a_file_that_takes_its_process_down_is_named_and_the_next_one_goes_on() -> None:
    sandbox = Sandbox(ConversionLimits(), processes=1)
    try:
        with pytest.raises(DocumentError, match=r"bad\.pdf: the converter died of it \(exit code 11\)"):
            await sandbox.run(os._exit, 11, label="bad.pdf")

        assert await sandbox.run(len, "next", label="next.pdf") == 4
    finally:
        await sandbox.aclose()


async def test_a_process_that_is_killed_while_it_is_idle_is_replaced() -> None:
    sandbox = Sandbox(ConversionLimits(), processes=1)
    try:
        pid = await sandbox.run(os.getpid, label="first.pdf")
        os.kill(pid, signal.SIGKILL)

        assert await sandbox.run(len, "next", label="next.pdf") == 4
    finally:
        await sandbox.aclose()


@pytest.mark.parametrize("limits", [{"unpacked_bytes": 1000}, {"archive_entries": 3}])
async def test_the_limits_of_an_archive_can_be_set(limits: dict[str, int]) -> None:
    async with Converters(ConversionLimits.model_validate(limits), processes=1) as converters:
        assert (await refused(converters, DOCX, "small.docx")).reason == "archive-too-large"


async def test_an_encrypted_entry_is_refused(converters: Converters) -> None:
    locked = bytearray(DOCX)
    for header, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        locked[locked.find(header) + flags] |= 1

    assert (await refused(converters, bytes(locked), "locked.docx")).reason == "encrypted"


async def test_a_table_with_too_many_cells_is_refused() -> None:
    async with Converters(ConversionLimits(cells=100), processes=1) as converters:
        data = b"a,b\n" * 60

        assert (await refused(converters, data, "wide.csv")).reason == "too-large"


async def test_a_file_that_is_too_large_is_refused_unread() -> None:
    async with Converters(ConversionLimits(file_bytes=10), processes=1) as converters:
        assert (await refused(converters, b"more than ten bytes", "large.txt")).reason == "too-large"


async def test_code_is_kept_exactly(converters: Converters) -> None:
    code = "def f():\r\n\treturn '# no heading'   \n\n\n"
    document = await brain_document(converters, RawDocument(code.encode(), "f.py"))

    assert document.text == code


def a_pdf(*, pages: int, with_text: int = 0) -> bytes:
    """A PDF by hand: `with_text` pages that say so, the others empty as a scan's text layer is."""
    objects: list[bytes] = [b"<< /Type /Catalog /Pages 2 0 R >>", b""]
    kids: list[str] = []
    for number in range(pages):
        drawing = (
            b"BT /F1 12 Tf 72 720 Td (A page with text) Tj ET" if number < with_text else b"0 0 100 100 re f"
        )
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R "
            b"/Resources << /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>"
            % (len(objects) + 2)
        )
        kids.append(f"{len(objects)} 0 R")
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(drawing), drawing))
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {pages} >>".encode()
    out = bytearray(b"%PDF-1.4\n")
    offsets: list[int] = []
    for number, content in enumerate(objects, start=1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    out += b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)
    return bytes(out)


AN_ENCRYPTED_PDF = (Path(__file__).parent / "encrypted.pdf").read_bytes()
