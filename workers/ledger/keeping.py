"""What keeps the ledger in order: closing breakers, the nightly build's roots, pruning, erasing a root."""

from typing import Any

from workers.ledger.outcomes import Reaped
from workers.ledger.readings import PAGE, Plan
from workers.ledger.scripts import Call
from workers.ledger.transitions import Transitions, instant, root_of, rows
from workers.ledger.views import Active, Party

_ERASE_STEP = 200


def reap(calls: Transitions) -> Plan[Reaped]:
    """See `Ledger.reap`."""
    returned, lost, dead, more = yield calls.reap()
    unparked = yield from unpark(calls)
    return Reaped(returned, lost, dead, unparked, more)


def close_breaker(calls: Transitions, profile: str, root: str | None) -> Plan[int]:
    """See `Ledger.close_breaker`."""
    yield calls.close_breaker(profile, root)
    return (yield from unpark(calls))


def unpark(calls: Transitions) -> Plan[int]:
    """Return to waiting what no open breaker holds; how many.

    Closing a breaker only removes it: whoever dies before this is done leaves it to the next reaper.
    """
    moved, skip = 0, 0
    while skip >= 0:
        some, skip = yield calls.unpark(skip)
        moved += some
    return moved


def active(calls: Transitions, limit: int) -> Call[list[Active]]:
    """See `Ledger.active`."""
    return calls.call(
        "active", (limit,), lambda reply: [Active(_party(one), instant(at)) for one, at in rows(reply, 2)]
    )


def rest(calls: Transitions, one: Active) -> Call[bool]:
    """See `Ledger.full_build_enqueued`."""
    seen = round(one.last_enqueued_at.timestamp() * 1000)
    return calls.call("rest", (f"{one.party.root}|{one.party.profile}", seen), bool)


def to_reconcile(calls: Transitions, limit: int, every_ms: int) -> Call[list[Party]]:
    """See `Ledger.to_reconcile`."""
    return calls.call("to_reconcile", (limit, every_ms), lambda reply: [_party(one) for one in reply])


def prune(calls: Transitions, idle_ms: int) -> Plan[int]:
    """See `Ledger.prune`."""
    forgotten, more = 0, 1
    limits = (calls.options.history_limit, calls.options.dead_limit)
    while more:
        some, more = yield calls.call("prune", (idle_ms, *limits, PAGE), list[Any])
        forgotten += some
    return forgotten


def erase(calls: Transitions, root: str) -> Plan[int]:
    """See `Ledger.erase`."""
    erased = yield from _erase_owed(calls, root, last=False)
    erased += yield from _erase_dead(calls, root)
    erased += yield from _erase_history(calls, root)
    return erased + (yield from _erase_owed(calls, root, last=True))


def _erase_owed(calls: Transitions, root: str, *, last: bool) -> Plan[int]:
    erased = 0
    while True:
        some: int = yield calls.call("erase", (root, _ERASE_STEP, "1" if last else ""), int)
        erased += some
        if some < _ERASE_STEP:
            return erased


def _erase_dead(calls: Transitions, root: str) -> Plan[int]:
    keys: list[str] = []
    skip = 0
    while True:
        page: list[str] = yield calls.call("dead", (skip, PAGE), list[str])
        keys += [key for key in page if root_of(key) == root]
        skip += PAGE
        if len(page) < PAGE:
            break
    erased = 0
    for start in range(0, len(keys), _ERASE_STEP):
        erased += yield calls.call("erase_dead", tuple(keys[start : start + _ERASE_STEP]), int)
    return erased


def _erase_history(calls: Transitions, root: str) -> Plan[int]:
    erased, after = 0, "-inf"
    while after != "":
        some, after = yield calls.call("erase_history", (root, after, PAGE), list[Any])
        erased += some
    return erased


def _party(text: str) -> Party:
    root, _, profile = text.partition("|")
    return Party(root, profile)
