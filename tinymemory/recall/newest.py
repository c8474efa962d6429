"""The newest of a scope: what a section lists when there is nothing to rank for."""

from collections.abc import Callable
from datetime import UTC, datetime

from tinymemory.engine import MemoryEngine
from tinymemory.meta import MetaFilter
from tinymemory.query import Hit, ListRequest

PAGE = 100
MAX_PAGES = 50

_LONG_AGO = datetime.min.replace(tzinfo=UTC)


async def newest(
    engine: MemoryEngine,
    filter: MetaFilter,  # noqa: A002  # the wire's word
    *,
    wanted: Callable[[Hit], bool] = lambda hit: True,
) -> list[Hit]:
    """List what a filter selects, newest first; of equal ones the more confident, then the later turn.

    Undated items come last, and the order of the listing decides between equals.  An engine's
    listing has no order to rely on, so it is read whole, up to 5,000 items.
    """
    found: dict[str, Hit] = {}
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await engine.list(ListRequest(filter=filter, limit=PAGE, cursor=cursor))
        for hit in page.items:
            if wanted(hit):
                found.setdefault(hit.id, hit)
        cursor = page.next_cursor
        if cursor is None:
            break
    return sorted(found.values(), key=_recency, reverse=True)


def _recency(hit: Hit) -> tuple[datetime, float, int]:
    at, turns = hit.meta.observed_at, hit.meta.turns
    return (
        at or _LONG_AGO,
        -1.0 if hit.confidence is None else hit.confidence,
        -1 if turns is None else turns.last,
    )
