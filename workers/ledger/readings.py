"""What is read: jobs, history, counts; each a plan of calls that either kind of client follows.

A call looks at a bounded part, so that none holds Redis up; what is put together from several is
therefore not one instant of the ledger.
"""

import json
from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import fields
from typing import Any, TypeVar

from workers.ledger.jobs import OWED, JobKey, JobState
from workers.ledger.outcomes import Outcome
from workers.ledger.scripts import Call
from workers.ledger.transitions import Transitions, instant, root_of, rows, state_of, type_of
from workers.ledger.views import (
    BatchProgress,
    BreakerView,
    ErrorView,
    HistoryView,
    JobDetail,
    JobStatus,
    JobView,
    LaneStats,
    RootStats,
    StatsView,
)

T = TypeVar("T")
Plan = Generator[Call[Any], Any, T]
"""Yields calls, is sent their parsed replies, and returns what was asked for."""

PAGE = 500
_PROFILE_WIDE = "*"
_COUNTED = frozenset(field.name for field in fields(LaneStats))


def queues(calls: Transitions) -> Plan[list[str]]:
    """See `Ledger.queues`."""
    found = yield calls.call("counts", (), list[Any])
    return sorted(found[0])


def jobs(
    calls: Transitions, *, root: str | None, limit: int, states: Sequence[JobState]
) -> Plan[list[JobView]]:
    """See `Ledger.jobs`."""
    wanted = tuple(states) or OWED
    owed = [state for state in wanted if state in OWED]
    reply = yield calls.call("owed", (root or "", limit, *owed), list[Any])
    by_due = sorted(rows(reply, 2))
    keys = list(dict.fromkeys(key for _, key in by_due))
    found: list[JobView] = []
    step = min(limit, PAGE)
    for start in range(0, len(keys), step):
        if len(found) >= limit:
            break
        page: list[JobDetail] = yield _details(calls, keys[start : start + step])
        # A job may have moved on between the two calls.
        found += [_view(job) for job in page if job.state in wanted]
    if JobState.DEAD in wanted:
        found += yield from dead(calls, root=root, limit=limit)
    return sorted(found, key=lambda job: (job.due_at, job.key))[:limit]


def dead(calls: Transitions, *, root: str | None, limit: int) -> Plan[list[JobView]]:
    """See `Ledger.dead`."""
    found: dict[str, JobView] = {}
    skip = 0
    while len(found) < limit:
        keys: list[str] = yield calls.call("dead", (skip, PAGE), list[str])
        mine = [key for key in keys if root is None or root_of(key) == root][: limit - len(found)]
        page: list[JobDetail] = yield _details(calls, mine)
        found |= {job.key: _view(job) for job in page if job.state is JobState.DEAD}
        skip += PAGE
        if len(keys) < PAGE:
            break
    return list(found.values())


def show(calls: Transitions, key: str) -> Plan[JobDetail | None]:
    """See `Ledger.show`."""
    found: list[JobDetail] = yield _details(calls, [key])
    if not found:
        return None
    detail = found[0]
    if detail.into is not None:
        status: JobStatus = yield calls.status(key)
        detail = detail.model_copy(update={"state": status.state})
    return detail


def history(calls: Transitions, *, root: str | None, key: str | None, limit: int) -> Plan[list[HistoryView]]:
    """See `Ledger.history`."""
    found: list[HistoryView] = []
    below: int | str = "+inf"
    while len(found) < limit:
        page: list[Any] = yield calls.call("history", (below, PAGE), list[Any])
        for number, text in rows(page, 2):
            below = number
            entry = json.loads(text)
            if (key is None or entry["key"] == key) and (root is None or root_of(entry["key"]) == root):
                found.append(_run_view(entry))
        if len(page) < 2 * PAGE:
            break
    return found[:limit]


def lanes(calls: Transitions) -> Plan[list[LaneStats]]:
    """See `Ledger.lanes`."""
    names, counts, totals = yield calls.call("counts", (), list[Any])
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for flat, suffix in ((counts, ""), (totals, "_total")):
        for field, value in rows(flat, 2):
            name, queue, profile = field.split("|", 2)
            # A newer release may count more than this one knows of.
            if name + suffix in _COUNTED:
                found.setdefault((queue, profile), {})[name + suffix] = int(value)
    for lane in found.values():
        # Counted once each: a script adds one number for an enqueue, not two.
        lane["enqueued_total"] = sum(lane.get(f"{how}_total", 0) for how in ("new", "rerun", "merged"))
    for queue in names:
        overdue = yield from _overdue(calls, queue)
        for profile, (due, age) in overdue.items():
            found.setdefault((queue, profile), {}).update(due=due, oldest_due_age_s=age)
    return [LaneStats(queue, profile, **lane) for (queue, profile), lane in sorted(found.items())]


def stats(calls: Transitions) -> Plan[StatsView]:
    """See `Ledger.stats`."""
    every = yield from lanes(calls)
    ages = [lane.oldest_due_age_s for lane in every if lane.oldest_due_age_s is not None]
    summed = ("waiting", "due", "queued", "running", "parked", "dead")
    totals = ("done_total", "retried_total", "throttled_total", "dead_total", "merged_total")
    open_ones: list[BreakerView] = yield breakers(calls)
    return StatsView(
        **{name: sum(getattr(lane, name) for lane in every) for name in (*summed, *totals)},
        oldest_due_age_s=max(ages, default=None),
        breakers=open_ones,
    )


def stats_by_root(calls: Transitions, limit: int) -> Plan[list[RootStats]]:
    """See `Ledger.stats_by_root`."""
    parties: dict[tuple[str, str], tuple[Any, ...]] = {}
    now, skip = 0, 0
    while True:
        reply: list[Any] = yield calls.call("parties", (skip, PAGE), list[Any])
        now, page = reply[0], list(rows(reply[1:], 7))
        parties |= {(root, profile): tuple(counts) for root, profile, *counts in page}
        skip += PAGE
        if len(page) < PAGE:
            break
    by_root: dict[str, list[tuple[Any, ...]]] = {}
    for (root, _), counts in parties.items():
        by_root.setdefault(root, []).append(counts)
    found = [_root_stats(root, counts, now) for root, counts in by_root.items()]
    return sorted(found, key=lambda one: (-(one.waiting + one.in_flight + one.parked), one.root))[:limit]


def breakers(calls: Transitions) -> Call[list[BreakerView]]:
    """See `Ledger.breakers`."""
    return calls.call("breakers", (), lambda reply: [_breaker(*row) for row in rows(reply, 5)])


def progress(calls: Transitions, batch: str) -> Plan[BatchProgress | None]:
    """See `Ledger.progress`."""
    keys: set[str] = set()
    cursor = ""
    while cursor != "0":
        cursor, page = yield calls.call("parts", (batch, cursor or "0", PAGE), list[Any])
        keys.update(page)
    if not keys:
        return None
    counts: Counter[str] = Counter()
    in_order = sorted(keys)
    for start in range(0, len(in_order), PAGE):
        page_of: list[JobStatus] = yield calls.statuses(in_order[start : start + PAGE])
        counts.update(status.state.value for status in page_of)
    return BatchProgress(len(keys), **counts)


def _overdue(calls: Transitions, queue: str) -> Plan[dict[str, tuple[int, float]]]:
    due: Counter[str] = Counter()
    oldest: dict[str, float] = {}
    skip = 0
    while True:
        reply: list[Any] = yield calls.call("overdue", (queue, skip, PAGE), list[Any])
        page = list(rows(reply[1:], 3))
        for profile, count, earliest in page:
            due[profile] += count
            oldest[profile] = max(oldest.get(profile, 0.0), (reply[0] - earliest) / 1000)
        skip += PAGE
        if len(page) < PAGE:
            return {profile: (due[profile], oldest[profile]) for profile in due}


def _details(calls: Transitions, keys: Sequence[str]) -> Call[list[JobDetail]]:
    def parse(reply: list[Any]) -> list[JobDetail]:
        found = zip(keys, rows(reply, 3), strict=True)
        return [_detail(key, dict(rows(flat, 2)), scope, ends) for key, (flat, scope, ends) in found if flat]

    return calls.call("rows", tuple(keys), parse)


def _detail(key: str, job: dict[str, str], scope: str, ends: str) -> JobDetail:
    over = "ended" in job
    state = state_of(job["state"])
    return JobDetail(
        key=JobKey(key),
        type=type_of(key),
        root=root_of(key),
        scope=scope,
        profile=job["profile"],
        state=state,
        due_at=instant(job["due"]),
        first_enqueued_at=instant(job["first"]),
        last_enqueued_at=instant(job.get("rlast") or job["last"]),
        merged=int(job.get("merged", 0)) + int(job.get("rcount", 0)),
        attempts=int(job.get("attempts", 0)),
        losses=int(job.get("losses", 0)),
        error=ErrorView(kind=job["ekind"], message=job["error"]) if "ekind" in job else None,
        queue=job["queue"],
        batch=job.get("batch"),
        worker=job.get("worker"),
        run=f"{key}:{job['token']}" if "token" in job else None,
        outcome=Outcome(job.get("outcome", "dead")) if over else None,
        into=JobKey(job["into"]) if "into" in job else None,
        lease_ends_at=instant(ends) if ends else None,
        finished_at=instant(job["ended"]) if over else None,
    )


def _view(job: JobDetail) -> JobView:
    return JobView(**{name: getattr(job, name) for name in JobView.model_fields})


def _run_view(entry: dict[str, Any]) -> HistoryView:
    key = entry["key"]
    return HistoryView(
        key=key,
        type=type_of(key),
        root=root_of(key),
        scope=entry["scope"],
        profile=entry["profile"],
        outcome=Outcome(entry["outcome"]),
        built=entry.get("built"),
        scopes=entry.get("scopes"),
        stored=entry.get("stored"),
        attempts=entry["attempts"],
        merged=entry["merged"],
        waited_s=entry["waited"] / 1000,
        ran_s=entry["ran"] / 1000,
        lag_s=entry["lag"] / 1000,
        worker=entry.get("worker"),
        finished_at=instant(entry["finished"]),
        error=entry.get("error"),
        into=entry.get("into"),
    )


def _breaker(id_: str, next_probe: int, reason: str, since: int, parked: int) -> BreakerView:
    root, _, profile = id_.partition("|")
    return BreakerView(
        profile=profile,
        root=None if root == _PROFILE_WIDE else root,
        reason=reason,
        since=instant(since),
        next_probe_at=instant(next_probe),
        parked=parked,
    )


def _root_stats(root: str, parties: Sequence[tuple[Any, ...]], now: int) -> RootStats:
    waiting, due, parked, in_flight, earliest = zip(*parties, strict=True)
    heads = [head for head in earliest if 0 < head <= now]
    return RootStats(
        root=root,
        waiting=sum(waiting),
        due=sum(due),
        parked=sum(parked),
        # A root's, not a party's: each row says the same.
        in_flight=max(in_flight),
        oldest_due_age_s=(now - min(heads)) / 1000 if heads else None,
    )
