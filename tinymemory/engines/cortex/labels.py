"""The labels of an event: short digests to look it up by, words for people, and its envelope in parts."""

import re
from collections.abc import Iterable, Iterator

from tinymemory.engines.cortex.digest import hex_digest
from tinymemory.engines.cortex.envelope import Envelope
from tinymemory.meta import MemoryMeta, MetaFilter
from tinymemory.redaction import redacted
from tinymemory.text import is_blank

MAX_LABELS = 64
"""What CortexDB takes on one event."""
MAX_LABEL_BYTES = 256
SLICE_BYTES = 240

_PART = re.compile(r"tm:e:([0-9]{1,9}):(.*)", re.DOTALL)
_PART_PREFIX = "tm:e:"
_THREAD = re.compile(r"thread-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def lookup(name: str, value: str) -> str:
    """The label a value is found by: `tm:<name>:` and 16 digits of its digest."""
    return f"tm:{name}:{hex_digest(value, 16)}"


def item_label(item_id: str) -> str:
    """The label every event of an item carries."""
    return lookup("i", item_id)


def lookup_labels(envelope: Envelope) -> list[str]:
    """What an event is found by; the item's own label first."""
    meta = envelope.meta
    named = {
        "t": meta.thread_id,
        "s": meta.source.id,
        "r": meta.repo,
        "w": meta.workspace,
        "a": meta.agent_id,
        "l": meta.language,
        "k": meta.source.kind.value,
    }
    found = [lookup(name, value) for name, value in named.items() if value is not None]
    # A workspace that was not sent has no value to digest here, but its digest was.
    kept_back = [f"tm:w:{envelope.ws[:16]}"] if envelope.ws is not None else []
    return [item_label(envelope.id), *found, *kept_back]


def readable_labels(envelope: Envelope) -> list[str]:
    """What a person browsing the server sees; nothing filters on these."""
    return [label for label in _readable(envelope, envelope.meta) if len(label.encode()) <= MAX_LABEL_BYTES]


def _readable(envelope: Envelope, meta: MemoryMeta) -> Iterator[str]:
    yield f"kind:{envelope.kind}"
    # Unchanged by redaction and yet redacted: what was read from a store and is stored again.
    if meta.agent_id is not None and not is_blank(meta.agent_id) and not _is_redacted(meta.agent_id):
        yield f"agent:{meta.agent_id}"
    if meta.thread_id is not None and _THREAD.fullmatch(meta.thread_id):
        yield f"thread:{meta.thread_id}"
    if meta.file_path is not None:
        yield f"file:{meta.file_path}"
    if envelope.chunk is not None:
        if envelope.chunk.page_label is not None:
            yield envelope.chunk.page_label
        if envelope.chunk.section is not None:
            yield f"section:{envelope.chunk.section}"


def envelope_labels(json: str) -> list[str]:
    """An envelope's JSON in slices of at most 240 bytes, none of which splits a character."""
    raw = json.encode()
    slices: list[str] = []
    start = 0
    while start < len(raw):
        end = min(start + SLICE_BYTES, len(raw))
        # A byte 10xxxxxx goes on with a character that began before it.
        while end < len(raw) and raw[end] & 0xC0 == 0x80:
            end -= 1
        slices.append(f"{_PART_PREFIX}{len(slices):02}:{raw[start:end].decode()}")
        start = end
    return slices


def joined_envelope(labels: Iterable[str]) -> str | None:
    """The JSON that an event's part labels make together, in whatever order they stand.

    None when there are none, when one is malformed, or when a number is missing or comes twice.
    """
    parts: dict[int, str] = {}
    for label in labels:
        if not label.startswith(_PART_PREFIX):
            continue
        match = _PART.fullmatch(label)
        if match is None or int(match[1]) in parts:
            return None
        parts[int(match[1])] = match[2]
    if not parts or max(parts) != len(parts) - 1:
        return None
    return "".join(parts[number] for number in range(len(parts)))


def narrowing_labels(wanted: MetaFilter) -> list[str]:
    """One set of labels, any of which an event selected by the filter carries; none narrows nothing.

    A label is a digest of a field and saves reading; the filter itself still decides.
    """
    for name, value in (
        ("t", wanted.thread_id),
        ("s", wanted.source_id),
        ("r", wanted.repo),
        ("w", wanted.workspace),
        ("a", wanted.agent_id),
        ("l", wanted.language),
    ):
        if value is not None:
            # Ids are stored redacted, but not by every library that wrote to the same log.
            spellings = [value, redacted(value)] if name in "tsa" else [value]
            return list(dict.fromkeys(lookup(name, spelling) for spelling in spellings))
    return list(dict.fromkeys(lookup("k", source.value) for source in wanted.sources))


def _is_redacted(value: str) -> bool:
    return value.startswith("tm-redacted:")
