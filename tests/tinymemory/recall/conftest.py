"""An engine under observation, and hits to answer with."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from tinymemory import Hit, ItemKind, MemoryMeta, ReferenceEngine
from tinymemory.testing.watched import WatchedEngine

MakeHit = Callable[..., Hit]


@pytest.fixture
def engine() -> WatchedEngine:
    return WatchedEngine(ReferenceEngine())


@pytest.fixture
def make_hit() -> MakeHit:
    """A hit by id; its text is `text of <id>` unless given, and meta fields go by their names."""

    def make(id_: str, kind: str = "learning", *, text: str | None = None, **fields: Any) -> Hit:
        confidence = fields.pop("confidence", None)
        if isinstance(fields.get("observed_at"), datetime) and fields["observed_at"].tzinfo is None:
            raise ValueError("give it a zone")
        return Hit(
            id=id_,
            kind=ItemKind(kind),
            text=f"text of {id_}" if text is None else text,
            meta=MemoryMeta.model_validate(fields),
            confidence=confidence,
        )

    return make
