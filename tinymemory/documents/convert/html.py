"""HTML, through BeautifulSoup and markdownify: headings, lists, links and tables stay what they are.

html2text was the other choice: it wraps tables' cells into prose and cannot be given a parsed tree.
"""

import re
import warnings

from bs4 import BeautifulSoup, XMLParsedAsHTMLWarning
from bs4.element import Tag
from markdownify import MarkdownConverter

from tinymemory.documents.converted import Converted
from tinymemory.documents.language import declared_language
from tinymemory.documents.raw import ConversionLimits, RawDocument

_NOT_TEXT = ("script", "style", "template", "noscript", "svg", "canvas", "iframe", "object", "embed", "form")
_BLANK_LINES = re.compile(r"\n{3,}")


def convert_html(raw: RawDocument, limits: ConversionLimits) -> Converted:
    """A web page; the encoding is the one it declares."""
    return html_document(raw.data)


def html_document(html: bytes | str) -> Converted:
    """A whole page as markdown, with the title and language it declares."""
    with warnings.catch_warnings():
        # Books and many pages are XHTML, which the HTML parser reads as well.
        warnings.simplefilter("ignore", XMLParsedAsHTMLWarning)
        soup = BeautifulSoup(html, "lxml")
    title = _text(soup.find("title")) or _text(soup.find("h1"))
    root = soup.find("html")
    language = root.get("lang") if isinstance(root, Tag) else None
    return Converted(markdown_of(soup), title=title, language=declared_language(str(language or "")))


def markdown_of(soup: BeautifulSoup) -> str:
    """A parsed tree as markdown; what is no text (scripts, styles, forms) is dropped."""
    for element in soup(_NOT_TEXT):
        element.decompose()
    for image in soup("img"):
        image.replace_with(str(image.get("alt") or ""))
    for element in soup("head"):
        element.decompose()
    markdown = MarkdownConverter(heading_style="atx", bullets="-", escape_misc=False).convert_soup(soup)
    lines = (line.rstrip() for line in markdown.replace("\xa0", " ").splitlines())
    return _BLANK_LINES.sub("\n\n", "\n".join(lines)).strip() + "\n"


def _text(element: object) -> str | None:
    return " ".join(element.get_text().split()) or None if isinstance(element, Tag) else None
