"""Word, PowerPoint and Excel files, as their headings, lists and tables.

Word goes through mammoth, which knows what a style means (python-docx leaves lists and nesting to
its caller); Excel through calamine, about ten times as fast as openpyxl and flat in memory.
"""

import io
import zipfile
from collections.abc import Iterator
from typing import Any

from defusedxml.ElementTree import fromstring

from tinymemory.documents.archive import ensure_safe_archive
from tinymemory.documents.convert.html import html_document
from tinymemory.documents.converted import PAGE_BREAK, Converted, markdown_table
from tinymemory.documents.language import declared_language
from tinymemory.documents.raw import ConversionLimits, DocumentError, RawDocument

_DC = "{http://purl.org/dc/elements/1.1/}"


def convert_docx(raw: RawDocument, limits: ConversionLimits) -> Converted:
    """A Word document."""
    import mammoth

    _ensure_no_macros(raw, limits)
    # Pictures would be carried along as data URIs; their descriptions are what is text of them.
    untyped: Any = mammoth
    image = untyped.images.img_element(_without_content)
    html: str = untyped.convert_to_html(io.BytesIO(raw.data), convert_image=image).value
    found = html_document(f"<html><body>{html}</body></html>")
    title, language = _core_properties(raw)
    return Converted(found.text, title=title or found.title, language=language)


def convert_pptx(raw: RawDocument, limits: ConversionLimits) -> Converted:
    """A presentation: a page a slide, its title as the heading, notes at the end."""
    from pptx import Presentation

    _ensure_no_macros(raw, limits)
    deck = Presentation(io.BytesIO(raw.data))
    slides = ["\n\n".join(_slide_parts(slide)) for slide in deck.slides]
    title, language = _core_properties(raw)
    return Converted(PAGE_BREAK.join(slides), title=title, language=language, pages=len(slides))


def convert_xlsx(raw: RawDocument, limits: ConversionLimits) -> Converted:
    """A workbook: a heading and a table a sheet."""
    from python_calamine import CalamineWorkbook

    _ensure_no_macros(raw, limits)
    workbook = CalamineWorkbook.from_filelike(io.BytesIO(raw.data))
    left = limits.cells
    parts: list[str] = []
    for name in workbook.sheet_names:
        rows: list[list[str]] = []
        for row in workbook.get_sheet_by_name(name).iter_rows():
            left -= len(row)
            if left < 0:
                raise DocumentError(
                    f"{raw.label}: the workbook has more than {limits.cells} cells", reason="too-large"
                )
            if any(cell not in ("", None) for cell in row):
                rows.append([_shown(cell) for cell in row])
        if rows:
            parts.append(f"## {name}\n\n{markdown_table(rows)}\n")
    title, language = _core_properties(raw)
    return Converted("\n".join(parts), title=title, language=language)


def _without_content(image: object) -> dict[str, str]:
    return {"src": ""}


def _slide_parts(slide: Any) -> Iterator[str]:
    title = slide.shapes.title
    if title is not None and title.text.strip():
        yield f"## {' '.join(title.text.split())}"
    for shape in _shapes(slide.shapes):
        if title is not None and shape.shape_id == title.shape_id:
            continue
        if shape.has_text_frame and shape.text_frame.text.strip():
            yield "\n".join(
                f"{'  ' * paragraph.level}- {paragraph.text.strip()}"
                for paragraph in shape.text_frame.paragraphs
                if paragraph.text.strip()
            )
        elif getattr(shape, "has_table", False) and shape.has_table:
            yield markdown_table([[cell.text for cell in row.cells] for row in shape.table.rows])
    if slide.has_notes_slide and (notes := slide.notes_slide.notes_text_frame) and notes.text.strip():
        yield f"Notes: {notes.text.strip()}"


def _shapes(shapes: Any) -> Iterator[Any]:
    for shape in shapes:
        if hasattr(shape, "shapes"):
            yield from _shapes(shape.shapes)
        else:
            yield shape


def _shown(cell: object) -> str:
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return "" if cell is None else str(cell)


def _ensure_no_macros(raw: RawDocument, limits: ConversionLimits) -> None:
    ensure_safe_archive(raw, limits)
    with zipfile.ZipFile(io.BytesIO(raw.data)) as archive:
        if any(name.lower().endswith("vbaproject.bin") for name in archive.namelist()):
            raise DocumentError(
                f"{raw.label}: the file carries macros; save it without them", reason="unsupported"
            )


def _core_properties(raw: RawDocument) -> tuple[str | None, str | None]:
    with zipfile.ZipFile(io.BytesIO(raw.data)) as archive:
        try:
            tree = fromstring(archive.read("docProps/core.xml"))
        except KeyError:
            return None, None
    title = (tree.findtext(f"{_DC}title") or "").strip()
    language = (tree.findtext(f"{_DC}language") or "").strip()
    return title or None, declared_language(language)
