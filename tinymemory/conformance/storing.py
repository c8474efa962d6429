"""Checks of health and of what a store promises: read back whole, once, in order."""

from typing import Any

from tinymemory.conformance.errors import promise
from tinymemory.conformance.lab import Lab, ensure_same_ids, ids
from tinymemory.engine import MAX_STORE_MANY, EngineHealth, HealthState, Item, WaitFor
from tinymemory.items import Conversation, Learning, LearningKind
from tinymemory.meta import MemoryMeta
from tinymemory.query import Hit, ListRequest

_BLANK = "\u2003\n"
_NOON = "2026-03-04T12:00:00.250Z"
# Nothing of these may be lost; of a path on the writer's machine an engine may keep the name alone, and
# who was observed it need not keep at all.
_KEPT = frozenset(MemoryMeta.model_fields) - {"folder", "file_path", "observed_actor"}


async def health(lab: Lab) -> None:
    """Health is an answer, and an engine under test is not down."""
    answer: Any = await lab.engine.health()
    promise(isinstance(answer, EngineHealth), f"health answered a {type(answer).__name__}")
    promise(answer.state is not HealthState.DOWN, f"the engine says it is down: {answer.reason}")


async def round_trip(lab: Lab) -> None:
    """Each kind of item is listed and read back with its text and its metadata."""
    items = _one_of_each(lab)
    stored = await lab.store_all(items)
    by_id = dict(zip(stored, items, strict=True))
    for how, hits in (("get", await lab.got(stored)), ("list", await lab.listed())):
        found = {hit.id: hit for hit in hits}
        for id_, item in by_id.items():
            promise(id_ in found, f"{how} does not find the {item.kind} just stored")
            _ensure_whole(item, found[id_], how)
    ensure_same_ids(ids(await lab.listed(limit=1)), stored, "a listing in pages of one")
    await _ensure_listing_refuses(lab)
    for item in _unstorable(lab):
        await lab.refused(f"storing a blank {item.kind}", lambda item=item: lab.engine.store(item))


async def replay(lab: Lab) -> None:
    """The same item again is the same item, also when it was observed at another time."""
    for number, item in enumerate(_one_of_each(lab)):
        first = await lab.store(item)
        promise(not first.replayed, f"a new {item.kind} was answered as a replay")
        restamped = item.model_copy(
            update={"meta": item.meta.model_copy(update={"observed_at": None, "observed_actor": None})}
        )
        for twin in (item, restamped):
            again = await lab.store(twin)
            promise(again.replayed, f"the same {item.kind} again was not answered as a replay")
        promise(len(await lab.listed()) == number + 1, f"a replayed {item.kind} is listed twice")


async def store_many(lab: Lab) -> None:
    """A batch is stored whole and in order, a repeat within it once; an invalid one not at all."""
    batch: list[Item] = [lab.learning(f"number {number}") for number in range(5)]
    receipts = await lab.store_many([*batch, batch[0]])
    replayed = [receipt.replayed for receipt in receipts]
    promise(replayed == [False] * 5 + [True], f"a batch of 5 and a repeat was answered with {replayed}")
    stored = [receipt.id for receipt in receipts[:5]]
    ensure_same_ids(ids(await lab.listed()), stored, "a listing after a batch")
    for what, items in (
        ("an empty batch", []),
        (f"a batch of {MAX_STORE_MANY + 1}", [lab.learning(f"many {n}") for n in range(MAX_STORE_MANY + 1)]),
        ("a batch with a blank item", [lab.learning("good"), *_unstorable(lab)]),
    ):
        await lab.refused(what, lambda items=items: lab.engine.store_many(items))
        ensure_same_ids(ids(await lab.listed()), stored, f"a listing after {what} was refused")


async def store_with(lab: Lab) -> None:
    """A visible store can be read at once, an accepted one soon, each under the item's own id."""
    visible = await lab.store_with(lab.learning("visible"), WaitFor.VISIBLE)
    promise(bool(await lab.got([visible.id])), "an item stored until visible is not readable")
    turn = lab.conversation("accepted", thread_id="t", turns={"first": 0, "last": 0})
    turn = turn.model_copy(update={"turns": turn.turns[:1]})
    accepted = await lab.store_with(turn, WaitFor.ACCEPTED)
    promise(not accepted.replayed, "a new accepted item was answered as a replay")
    promise(await lab.readable(accepted.id), "an accepted item did not become readable")
    again = await lab.store_with(turn, WaitFor.VISIBLE)
    promise(again.replayed, "storing an accepted item again was not answered as a replay")
    for wait in WaitFor:
        for item in _unstorable(lab):
            await lab.refused(
                f"storing a blank {item.kind} until {wait}",
                lambda item=item, wait=wait: lab.engine.store_with(item, wait=wait),
            )


def _one_of_each(lab: Lab) -> list[Item]:
    full: dict[str, Any] = {
        "workspace": "desk",
        "language": "en",
        "repo": "acme/app",
        "commit": "c0ffee",
        "url": "https://acme.example/log",
        "thread_id": "thread-a",
        "turns": {"first": 0, "last": 1},
        "agent_id": "keeper",
        "tool_call": {"name": "tide_table", "id": "call-1"},
        "source": {"kind": "github", "id": "harbour"},
        "tags": ["tide", "été"],
        "observed_at": _NOON,
        "observed_actor": {"id": "ann", "name": "Ann"},
    }
    learning = lab.learning("whole", **full)
    return [
        lab.document("whole", folder="/logs", file_path="/logs/whole.txt", **full),
        lab.conversation("whole", **full),
        learning.model_copy(update={"learning_kind": LearningKind.PREFERENCE, "confidence": 0.25}),
    ]


def _unstorable(lab: Lab) -> list[Item]:
    document = lab.document("blank")
    blank = document.body.model_copy(update={"text": _BLANK})
    return [
        document.model_copy(update={"body": blank}),
        Conversation(turns=(), meta=lab.meta()),
        Learning(text=_BLANK, meta=lab.meta()),
    ]


def _ensure_whole(item: Item, hit: Hit, how: str) -> None:
    promise(hit.kind is item.kind, f"{how} answers the {item.kind} as a {hit.kind}")
    promise(hit.text == item.render_text(), f"{how} answers the {item.kind} with another text")
    promise(hit.score == 0.0, f"{how} answers the {item.kind} with a score of {hit.score}")
    same_confidence = hit.confidence == item.confidence
    promise(same_confidence, f"{how} answers the {item.kind} with a confidence of {hit.confidence}")
    for field in sorted(_KEPT):
        same = getattr(hit.meta, field) == getattr(item.meta, field)
        promise(same, f"{how} answers the {item.kind} with another `{field}`")


async def _ensure_listing_refuses(lab: Lab) -> None:
    for what, request in (
        ("a listing of no items", ListRequest(filter=lab.filter(), limit=0)),
        ("a listing at an unknown cursor", ListRequest(filter=lab.filter(), cursor="\x00 no cursor")),
    ):
        await lab.refused(what, lambda request=request: lab.engine.list(request))
