"""PDF, through pdfium: fast, permissively licensed, and used to broken files.

pypdf and pdfminer.six were the others: on the test corpus both are 10 to 30 times slower, and
pypdf joins words of justified text.
"""

import re
from statistics import median

import pypdfium2
import pypdfium2.raw as pdfium

from tinymemory.documents.converted import PAGE_BREAK, Converted
from tinymemory.documents.raw import ConversionLimits, DocumentError, RawDocument
from tinymemory.text import is_blank

_PASSWORD = 4
_HEADING_SIZES = (1.6, 1.3, 1.12)
"""How much larger than the body's type a line is, for a heading of level 1, 2 and 3."""
_MOST_HEADING = 120
_HYPHEN = re.compile(r"[\ufffe\u00ad\x02]\n?")


def convert_pdf(raw: RawDocument, limits: ConversionLimits) -> Converted:
    """The text layer, page by page; larger type becomes headings.

    Raises:
        DocumentError: Encrypted, damaged, or without any text: a scan.
    """
    try:
        document = pypdfium2.PdfDocument(raw.data)
    except pypdfium2.PdfiumError as error:
        if getattr(error, "err_code", None) == _PASSWORD or "password" in str(error).lower():
            raise DocumentError(
                f"{raw.label}: the file is encrypted; save it without a password", reason="encrypted"
            ) from None
        raise DocumentError(f"{raw.label}: the PDF is damaged or cut off") from None
    try:
        pages = [_page_lines(page) for page in document]
        title = document.get_metadata_value("Title").strip() or None  # pyright: ignore[reportUnknownMemberType]  # its key has no type
    finally:
        document.close()
    sizes = [size for lines in pages for text, size in lines for _ in range(min(len(text), 200))]
    body = median(sizes) if sizes else 0.0
    texts = ["\n".join(_as_markdown(text, size, body) for text, size in lines) for lines in pages]
    with_text = sum(not is_blank(text) for text in texts)
    if not with_text:
        raise DocumentError(
            f"{raw.label}: none of its {len(pages)} pages holds text; it is a scan and needs OCR first",
            reason="no-text",
        )
    return Converted(PAGE_BREAK.join(texts), title=title, pages=len(pages), pages_with_text=with_text)


def _page_lines(page: pypdfium2.PdfPage) -> list[tuple[str, float]]:
    textpage = page.get_textpage()
    try:
        text = textpage.get_text_range().replace("\r\n", "\n").replace("\r", "\n")
        # pdfium counts its own line ends as two characters, `\r\n`.
        lines: list[tuple[str, float]] = []
        index = 0
        for line in text.split("\n"):
            size = pdfium.FPDFText_GetFontSize(textpage.raw, index + len(line) // 2) if line else 0.0
            lines.append((_HYPHEN.sub("", line), float(size)))
            index += len(line) + 2
        return lines
    finally:
        textpage.close()


def _as_markdown(line: str, size: float, body: float) -> str:
    stripped = line.strip()
    if body and stripped and len(stripped) <= _MOST_HEADING and not stripped.endswith((".", ",", ";")):
        for level, factor in enumerate(_HEADING_SIZES, start=1):
            if size >= factor * body:
                return f"\n{'#' * level} {stripped}\n"
    return line.rstrip()
