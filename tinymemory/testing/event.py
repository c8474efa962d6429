"""One event of a loopback server's log, and how it is shown."""

import json
import math
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tinymemory.testing.schema import AppendBody


@dataclass(eq=False, slots=True)
class Event:
    """One stored event."""

    number: int
    """Counts up over a log's life, from 1."""
    scope: str
    modality: str
    role: str
    kind: str
    text: str
    labels: tuple[str, ...]
    observed_at: datetime | None
    recorded_at: datetime
    written: float
    """Seconds by the log's clock."""
    extracts: bool
    """Whether a fact is drawn from it at all."""
    key: str | None
    gone: bool = False
    """Removed from the log, and its fact with it."""
    searchable: str = field(init=False)

    def __post_init__(self) -> None:
        self.searchable = self.text.lower()

    @classmethod
    def of(cls, body: AppendBody, *, number: int, recorded_at: datetime, written: float) -> "Event":
        """The event an accepted append becomes."""
        return cls(
            number=number,
            scope=body.scope,
            modality=body.modality,
            role=body.content.role,
            kind=body.content.kind,
            text=body.content.text,
            labels=tuple(body.context.labels),
            observed_at=body.context.observed_at,
            recorded_at=recorded_at,
            written=written,
            extracts=body.directives.extract != [],
            key=body.idempotency_key,
        )

    @property
    def id(self) -> str:
        """What it is called on the wire."""
        return f"evt_{self.number}"

    @property
    def seen_at(self) -> datetime:
        """When it was observed, or else recorded."""
        return self.observed_at or self.recorded_at

    @property
    def own_text(self) -> str:
        """The item's own text: an envelope's `text` where the whole envelope is the event's text."""
        if self.text.startswith("{"):
            try:
                envelope = json.loads(self.text)
            except (ValueError, RecursionError):  # a text that only looks like one may be nested for ever
                return self.text
            if envelope.get("v") == 2 and isinstance(envelope.get("text"), str):
                return envelope["text"]
        return self.text

    @property
    def tokens(self) -> int:
        """What it costs in a pack."""
        return math.ceil(len(self.text.encode()) / 3)

    def carries_any(self, labels: list[str]) -> bool:
        """Whether it has one of the labels; true when none is asked for."""
        return not labels or any(label in self.labels for label in labels)

    def shown(self, scope: str, text: str | None = None) -> dict[str, Any]:
        """Its JSON in a listing or a pack, under the path the caller reads."""
        return {
            "id": self.id,
            "scope": scope,
            "modality": self.modality,
            "content": {"kind": self.kind, "role": self.role, "text": self.text if text is None else text},
            "context": {
                "labels": list(self.labels),
                "observed_at": self.observed_at and self.observed_at.isoformat(),
                "recorded_at": self.recorded_at.isoformat(),
            },
        }


def cut_to_bytes(text: str, limit: int) -> str:
    """The longest beginning of a text within so many bytes of UTF-8, no character split."""
    return text.encode()[:limit].decode(errors="ignore")
