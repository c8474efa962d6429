"""Which language a text is in."""

import re
from functools import cache
from typing import Any

SAMPLE = 4000
_TAG = re.compile(r"([a-z]{2})(?:[-_].*)?", re.IGNORECASE)
_LEAST_LETTERS = 40
_LEAST_CONFIDENCE = 0.9


def detect_language(text: str) -> str | None:
    """ISO 639-1, from the first 4,000 characters; None when it is not plain.

    py3langid was chosen over lingua (100 MB of models) and langdetect (not deterministic, and ten
    times slower).
    """
    sample = text[:SAMPLE]
    if sum(map(str.isalpha, sample)) < _LEAST_LETTERS:
        return None
    try:
        language, confidence = _identifier().classify(sample)
    except ModuleNotFoundError:
        return None
    return str(language) if confidence >= _LEAST_CONFIDENCE else None


def declared_language(tag: str | None) -> str | None:
    """The ISO 639-1 part of a language tag such as `en-GB`; None when it is none."""
    match = _TAG.fullmatch((tag or "").strip())
    return match[1].lower() if match else None


@cache
def _identifier() -> Any:
    from py3langid import langid

    untyped: Any = langid
    return untyped.LanguageIdentifier.from_model_file(untyped.MODEL_FILE, norm_probs=True)
