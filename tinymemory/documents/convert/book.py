"""EPUB, by the standard library: a zip of pages in the order its package names.

ebooklib was the other choice: its licence (AGPL) would become that of whoever ships it.
"""

import io
import posixpath
import zipfile
from urllib.parse import unquote
from xml.etree.ElementTree import Element

from defusedxml.ElementTree import fromstring

from tinymemory.documents.archive import ensure_safe_archive
from tinymemory.documents.convert.html import html_document
from tinymemory.documents.converted import PAGE_BREAK, Converted
from tinymemory.documents.language import declared_language
from tinymemory.documents.raw import ConversionLimits, DocumentError, RawDocument

_CONTAINER = "META-INF/container.xml"
_OPF = "{http://www.idpf.org/2007/opf}"
_DC = "{http://purl.org/dc/elements/1.1/}"
_ENCRYPTION = "META-INF/encryption.xml"


def convert_epub(raw: RawDocument, limits: ConversionLimits) -> Converted:
    """A book: a page break before each of its chapters but the first."""
    ensure_safe_archive(raw, limits)
    with zipfile.ZipFile(io.BytesIO(raw.data)) as book:
        if _ENCRYPTION in book.namelist() and b"xhtml" in book.read(_ENCRYPTION):
            raise DocumentError(f"{raw.label}: the book is encrypted (DRM)", reason="encrypted")
        try:
            package_path = _package_path(fromstring(book.read(_CONTAINER)))
            package = fromstring(book.read(package_path))
        except (KeyError, ValueError, SyntaxError):
            raise DocumentError(f"{raw.label}: the book names no package that can be read") from None
        pages = [html_document(book.read(name)).text for name in _spine(package, package_path, book)]
    title = (package.findtext(f".//{_DC}title") or "").strip()
    language = (package.findtext(f".//{_DC}language") or "").strip()
    return Converted(
        PAGE_BREAK.join(pages), title=title or None, language=declared_language(language), pages=len(pages)
    )


def _package_path(container: Element) -> str:
    for element in container.iter():
        if element.tag.endswith("rootfile") and (path := element.get("full-path")):
            return path
    raise KeyError("rootfile")


def _spine(package: Element, package_path: str, book: zipfile.ZipFile) -> list[str]:
    folder = posixpath.dirname(package_path)
    paths = {item.get("id"): item.get("href") or "" for item in package.iter(f"{_OPF}item")}
    order = (paths.get(reference.get("idref")) for reference in package.iter(f"{_OPF}itemref"))
    names = (posixpath.normpath(posixpath.join(folder, unquote(path))) for path in order if path)
    known = set(book.namelist())
    return [name for name in names if name in known]
