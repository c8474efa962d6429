"""The writes: a store that lands where the host put the tools, a forget that cannot reach out."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from tinymemory.engine import Item, MemoryEngine
from tinymemory.errors import InvalidRequestError
from tinymemory.items import Conversation, Document, Learning
from tinymemory.meta import MemoryMeta, MetaFilter
from tinymemory.namespace import Namespace, Reach
from tinymemory.query import ForgetTarget, GetRequest
from tinymemory.tools.spec import ToolName

_ITEMS = ("learning", "document", "conversation")


async def store(
    engine: MemoryEngine, place: Namespace, arguments: dict[str, Any], *, clock: Callable[[], datetime]
) -> dict[str, Any]:
    """Store one item at `place`, as observed now: `{id, replayed}`."""
    named = [kind for kind in _ITEMS if kind in arguments]
    if len(named) != 1:
        given = " and ".join(f"`{kind}`" for kind in named) or "none of them"
        raise InvalidRequestError(
            f"{ToolName.STORE}: give exactly one of `learning`, `document` or `conversation`, not {given}"
        )
    meta = MemoryMeta(namespace=place, tags=tuple(arguments.get("tags", ())), observed_at=clock())
    receipt = await engine.store(_item(named[0], arguments[named[0]], meta))
    return receipt.model_dump(mode="json")


async def forget(
    engine: MemoryEngine, reach: Reach | None, arguments: dict[str, Any], chosen: MetaFilter
) -> dict[str, Any]:
    """Forget by ids or by filter, within `reach`: `{forgotten, skipped}`."""
    selects = any(arguments.get("filter", {}).values())
    if "ids" in arguments and selects:
        raise InvalidRequestError(f"{ToolName.FORGET}: forget by `ids` or by `filter`, not by both")
    if "ids" in arguments:
        return await _forget_ids(engine, reach, arguments["ids"])
    if not selects:
        # A reach alone would mean everything in reach.
        raise InvalidRequestError(
            f"{ToolName.FORGET}: name the `ids` to forget, or set at least one field of `filter`"
        )
    report = await engine.forget(ForgetTarget.filter(chosen))
    return {"forgotten": report.forgotten, "skipped": []}


async def _forget_ids(engine: MemoryEngine, reach: Reach | None, ids: list[str]) -> dict[str, Any]:
    # An engine forgets an id wherever it lies, so what the reach does not show is not named to it.
    found = {hit.id for hit in await engine.get(GetRequest(ids=tuple(ids), reach=reach))}
    mine = [id_ for id_ in ids if id_ in found]
    forgotten = (await engine.forget(ForgetTarget.ids(mine))).forgotten if mine else 0
    return {"forgotten": forgotten, "skipped": [id_ for id_ in ids if id_ not in found]}


def _item(kind: str, fields: dict[str, Any], meta: MemoryMeta) -> Item:
    match kind:
        case "learning":
            return Learning.model_validate({**fields, "meta": meta})
        case "document":
            return Document.model_validate(
                {"title": fields.get("title"), "body": {"text": fields["text"]}, "meta": meta}
            )
        case _:
            return Conversation.model_validate({**fields, "meta": meta})
