"""Files as brain documents: detected, converted within limits, checked, and scrubbed when asked."""

from tinymemory.documents.converted import Converted
from tinymemory.documents.converters import Converters, brain_document
from tinymemory.documents.format import Format, detect_format
from tinymemory.documents.language import detect_language
from tinymemory.documents.raw import ConversionLimits, DocumentError, RawDocument

__all__ = [
    "ConversionLimits",
    "Converted",
    "Converters",
    "DocumentError",
    "Format",
    "RawDocument",
    "brain_document",
    "detect_format",
    "detect_language",
]
