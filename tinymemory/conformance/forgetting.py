"""Checks of forgetting: exactly what was named, never everything, and the tidying up at the end."""

from tinymemory.conformance.errors import promise
from tinymemory.conformance.lab import Lab, ensure_same_ids, ids
from tinymemory.meta import MetaFilter
from tinymemory.namespace import Reach
from tinymemory.query import BeliefsRequest, ForgetTarget

_UNKNOWN = "0" * 40


async def empty_forget(lab: Lab) -> None:
    """A forget that names nothing is refused and forgets nothing."""
    stored = await lab.fill([lab.learning("kept")])
    for what, target in (
        ("a forget of no ids", ForgetTarget.ids([])),
        ("a forget by an empty filter", ForgetTarget.filter(MetaFilter())),
    ):
        await lab.refused(what, lambda target=target: lab.engine.forget(target))
        ensure_same_ids(ids(await lab.listed()), stored, f"a listing after {what}")


async def forget_by_id(lab: Lab) -> None:
    """The items named are gone, the others stay, and what is gone can be stored again."""
    kept, gone, talk = (lab.learning("kept"), lab.document("gone", "team:a"), lab.conversation("gone"))
    kept_id, gone_id, talk_id = await lab.fill([kept, gone, talk])
    report = await lab.engine.forget(ForgetTarget.ids([gone_id, _UNKNOWN, talk_id, gone_id]))
    promise(report.forgotten == 2, f"forgetting two items by id was counted as {report.forgotten}")
    ensure_same_ids(ids(await lab.listed()), [kept_id], "a listing after a forget by id")
    promise(await lab.got([gone_id, talk_id]) == [], "get still answers what was forgotten by id")
    for mode in lab.engine.descriptor.fetch_modes:
        found = ids(await lab.fetched(mode))
        ensure_same_ids(found, [kept_id], f"a {mode} fetch after a forget by id")
    none = await lab.engine.forget(ForgetTarget.ids([_UNKNOWN]))
    promise(none.forgotten == 0, f"forgetting an unknown id was counted as {none.forgotten}")
    again = await lab.store(gone)
    promise(not again.replayed, "storing what was forgotten was answered as a replay")
    promise(bool(await lab.got([gone_id])), "what was forgotten cannot be stored again")


async def forget_by_filter(lab: Lab) -> None:
    """What the filter selects is gone, and neither an ancestor's nor a sibling's memory is touched."""
    top, writer, reader, tagged = await lab.fill(
        [
            lab.learning("top", tags=["old"]),
            lab.learning("writer", "agent:w", tags=["old"]),
            lab.learning("reader", "agent:r", tags=["old"]),
            lab.document("writer", "agent:w", tags=["new"]),
        ]
    )
    confined = MetaFilter(reach=Reach.exact(lab.at("agent:w")), tags_any=("old",))
    report = await lab.engine.forget(ForgetTarget.filter(confined))
    promise(report.forgotten == 1, f"forgetting one item by filter was counted as {report.forgotten}")
    ensure_same_ids(ids(await lab.listed()), [top, reader, tagged], "a listing after a forget by filter")
    promise(await lab.got([writer]) == [], "get still answers what was forgotten by filter")
    again = await lab.engine.forget(ForgetTarget.filter(confined))
    promise(again.forgotten == 0, f"forgetting by the same filter again was counted as {again.forgotten}")


async def cleanup(lab: Lab) -> None:
    """A reach alone forgets all that lies in it, and what was derived from that."""
    await lab.fill(
        [lab.document("last", "team:a"), lab.conversation("last", "team:a/agent:w"), lab.learning("last")]
    )
    await lab.engine.forget(ForgetTarget.filter(lab.filter()))
    promise(await lab.listed() == [], "a listing after forgetting everything in reach is not empty")
    for mode in lab.engine.descriptor.fetch_modes:
        promise(await lab.fetched(mode) == [], f"a {mode} fetch after forgetting everything is not empty")
    beliefs = await lab.engine.beliefs(BeliefsRequest(reach=lab.reach, limit=10))
    promise(beliefs == [], "beliefs outlive all that they were built from")
