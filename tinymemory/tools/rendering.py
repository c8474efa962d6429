"""How results read: compact, without what a model has no use for, and never where memory lies."""

from typing import Any

from tinymemory.meta import MemoryMeta
from tinymemory.query import Citation, Hit

_DIGITS = 4
_SHOWN = {"source", "file_path", "url", "thread_id", "tags", "observed_at"}


def rendered_hit(hit: Hit) -> dict[str, Any]:
    """`{id, kind, text, score, confidence?, meta}`; scores and confidences to four places."""
    return {
        "id": hit.id,
        "kind": hit.kind.value,
        "text": hit.text,
        "score": round(hit.score, _DIGITS),
        **({} if hit.confidence is None else {"confidence": round(hit.confidence, _DIGITS)}),
        "meta": _rendered_meta(hit.meta),
    }


def rendered_citation(citation: Citation) -> dict[str, Any]:
    """`{id, kind, snippet, score?, meta}`."""
    return {
        "id": citation.id,
        "kind": citation.kind.value,
        "snippet": citation.snippet,
        **({} if citation.score is None else {"score": round(citation.score, _DIGITS)}),
        "meta": _rendered_meta(citation.meta),
    }


def rendered_page(name: str, hits: list[Hit], next_cursor: str | None) -> dict[str, Any]:
    """`{name: [hit, …], next_cursor?}`."""
    more = {} if next_cursor is None else {"next_cursor": next_cursor}
    return {name: [rendered_hit(hit) for hit in hits], **more}


def _rendered_meta(meta: MemoryMeta) -> dict[str, Any]:
    return meta.model_dump(mode="json", include=_SHOWN)
