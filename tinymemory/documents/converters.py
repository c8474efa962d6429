"""From a file to a brain document: the format is found, the right converter run, the result checked."""

import asyncio
import importlib
from pathlib import PurePath
from types import TracebackType
from typing import Self

from tinymemory.brain import BrainDocument, BrainSource
from tinymemory.documents.converted import Converted
from tinymemory.documents.format import Format, detect_format
from tinymemory.documents.language import detect_language
from tinymemory.documents.raw import ConversionLimits, DocumentError, RawDocument, ensure_size
from tinymemory.documents.sandbox import Sandbox
from tinymemory.errors import ConfigError, TinyMemoryError
from tinymemory.meta import MemoryMeta
from tinymemory.text import is_blank, trimmed

_CONVERT = "tinymemory.documents.convert."
_FUNCTIONS = {
    Format.MARKDOWN: "plain:convert_markdown",
    Format.TEXT: "plain:convert_text",
    Format.CODE: "plain:convert_code",
    Format.HTML: "html:convert_html",
    Format.PDF: "pdf:convert_pdf",
    Format.DOCX: "office:convert_docx",
    Format.PPTX: "office:convert_pptx",
    Format.XLSX: "office:convert_xlsx",
    Format.CSV: "table:convert_csv",
    Format.EML: "mail:convert_mail",
    Format.EPUB: "book:convert_epub",
}
_HARMLESS = frozenset({Format.MARKDOWN, Format.TEXT, Format.CODE})
"""Nothing is parsed of these: they are decoded in a thread, thousands a minute."""


class Converters:
    """Every converter there is, and the processes they run in; an async context manager."""

    def __init__(self, limits: ConversionLimits | None = None, *, processes: int = 2) -> None:
        self.limits = limits or ConversionLimits()
        self._sandbox = Sandbox(self.limits, processes=processes)

    async def convert(self, raw: RawDocument) -> tuple[Format, Converted]:
        """A file as text.

        Raises:
            DocumentError: It cannot be: unknown, damaged, encrypted, too large, without text…
            ConfigError: The format needs the extra `documents`, which is not installed.
        """
        ensure_size(raw, self.limits)
        format_ = detect_format(raw)
        arguments = (_FUNCTIONS[format_], raw, self.limits)
        if format_ in _HARMLESS:
            converted = await asyncio.to_thread(run_converter, *arguments)
        else:
            converted = await self._sandbox.run(run_converter, *arguments, label=raw.label)
        if is_blank(converted.text):
            raise DocumentError(f"{raw.label}: the file holds no text", reason="no-text")
        return format_, converted

    async def aclose(self) -> None:
        """End the processes; more than once is fine."""
        await self._sandbox.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


async def brain_document(
    converters: Converters,
    raw: RawDocument,
    source: BrainSource | str | None = None,
    meta: MemoryMeta | None = None,
) -> BrainDocument:
    """A file as a document for the brain, filed under `source` or the one its format implies.

    A PDF of which only some pages hold text is tagged `coverage:<pages with text>/<pages>`.

    Raises:
        DocumentError: The file cannot be made a document; the message names it.
    """
    format_, converted = await converters.convert(raw)
    meta = meta or MemoryMeta()
    language = meta.language or converted.language or await asyncio.to_thread(detect_language, converted.text)
    coverage = _coverage(converted)
    return BrainDocument(
        source=BrainSource(source) if isinstance(source, str) else source or format_.source,
        title=_title(converted, raw),
        text=converted.text,
        mime=format_.mime if format_ is not Format.CODE else "text/plain",
        meta=meta.model_copy(
            update={
                "language": language,
                "file_path": meta.file_path or raw.name,
                "tags": (*meta.tags, coverage) if coverage else meta.tags,
            }
        ),
    )


def run_converter(function: str, raw: RawDocument, limits: ConversionLimits) -> Converted:
    """Run one converter by name, as a sandbox process does; whatever it raises becomes `DocumentError`."""
    module, _, name = function.partition(":")
    try:
        return getattr(importlib.import_module(_CONVERT + module), name)(raw, limits)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{raw.label}: converting it needs {error.name}: pip install 'tinymemory[documents]'"
        ) from None
    except (TinyMemoryError, MemoryError):
        raise
    except RecursionError:
        raise DocumentError(f"{raw.label}: the file is nested too deeply") from None
    except Exception as error:  # a parser's own exceptions are without number; the file is at fault
        raise DocumentError(
            f"{raw.label}: the file is damaged or malformed ({type(error).__name__})"
        ) from None


def _title(converted: Converted, raw: RawDocument) -> str | None:
    if converted.title and not is_blank(converted.title):
        return trimmed(converted.title)
    return PurePath(raw.name.replace("\\", "/")).name if raw.name else None


def _coverage(converted: Converted) -> str | None:
    pages, with_text = converted.pages, converted.pages_with_text
    if pages is None or with_text is None or with_text == pages:
        return None
    return f"coverage:{with_text}/{pages}"
