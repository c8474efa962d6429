"""Answers without a model: the passages that say most about a question, quoted."""

from tinymemory.engines.sqlite.sentences import sentence_spans
from tinymemory.engines.sqlite.words import telling, words
from tinymemory.model import instant_text
from tinymemory.query import Citation, Hit, RecallAnswer
from tinymemory.text import trimmed

NOTHING = "Nothing stored answers this."
_PASSAGE = 400


def answer(question: str, hits: list[Hit]) -> RecallAnswer:
    """One line a hit, best first: its day, when it has one, and the passage nearest to the question."""
    asked = set(telling(words(question)))
    passages = [_passage(hit.text, asked) for hit in hits]
    lines = [_line(hit, passage) for hit, passage in zip(hits, passages, strict=True)]
    return RecallAnswer(
        answer="\n".join(lines) or NOTHING,
        citations=[
            Citation(id=hit.id, kind=hit.kind, snippet=passage, meta=hit.meta, score=hit.score)
            for hit, passage in zip(hits, passages, strict=True)
        ],
    )


def _line(hit: Hit, passage: str) -> str:
    at = hit.meta.observed_at
    said = " ".join(passage.split())
    return said if at is None else f"[{instant_text(at)[:10]}] {said}"


def _passage(text: str, asked: set[str]) -> str:
    """The stretch of whole sentences with the most of the words asked for; a short text is its own."""
    if len(text) <= _PASSAGE:
        return trimmed(text)
    spans = sentence_spans(text)
    shares = [len(asked.intersection(words(text[start:end]))) for start, end in spans]
    best = max(range(len(spans)), key=lambda place: (_share_of_stretch(spans, shares, place), -place))
    start, end = spans[best][0], _end_of_stretch(spans, best)
    return trimmed(text[start:end]) if end - start <= _PASSAGE else text[start : start + _PASSAGE] + "…"


def _share_of_stretch(spans: list[tuple[int, int]], shares: list[int], place: int) -> int:
    end = _end_of_stretch(spans, place)
    return sum(share for (_, stop), share in zip(spans[place:], shares[place:], strict=True) if stop <= end)


def _end_of_stretch(spans: list[tuple[int, int]], place: int) -> int:
    """Where the last sentence ends that still fits behind this one; this one always does."""
    first, end = spans[place]
    for _, stop in spans[place + 1 :]:
        if stop - first > _PASSAGE:
            break
        end = stop
    return end
