"""`tinymemory jobs`: what is owed, what failed and why, and what to do about it."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Annotated, TypeVar

import typer
from pydantic import BaseModel
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from tinymemory.errors import InvalidRequestError, NotFoundError
from tinymemory.model import instant_text
from tinymemory.namespace import Namespace
from workers.access import open_ledger
from workers.commands.output import (
    Column,
    JsonOption,
    LimitOption,
    RootOption,
    YesOption,
    age,
    ago,
    confirm,
    console,
    duration,
    print_json,
    state_text,
    table,
)
from workers.ledger import (
    BreakerView,
    HistoryView,
    JobDetail,
    JobState,
    JobView,
    Ledger,
    RootStats,
    StatsView,
)
from workers.settings import WorkerSettings
from workers.spool import Spool, SpoolStats

T = TypeVar("T")
KeyArgument = Annotated[
    str, typer.Argument(help="The job's key, as `jobs list` shows it.", show_default=False)
]
KeysArgument = Annotated[list[str] | None, typer.Argument(help="Keys of jobs.", show_default=False)]
AllOption = Annotated[bool, typer.Option("--all", help="Every one (of --root, when given).")]

jobs = typer.Typer(name="jobs", no_args_is_help=True, help="See what is owed, late or failed, and act on it.")


class Changed(BaseModel):
    """What a command did to one job."""

    key: str
    state: JobState


class Stats(StatsView):
    """`jobs stats`: the ledger, and the host's spool beside it."""

    spool: SpoolStats


@jobs.command("list")
def list_(root: RootOption = None, limit: LimitOption = 100, as_json: JsonOption = False) -> None:
    """Show every job that is not finished, the one due first on top."""
    found = _with_ledger(lambda ledger: ledger.jobs(root=_root(root), limit=limit))
    _print(found, _JOB_COLUMNS, as_json, nothing="nothing is owed")


@jobs.command()
def dead(root: RootOption = None, limit: LimitOption = 100, as_json: JsonOption = False) -> None:
    """Show the jobs that were given up, the newest first."""
    found = _with_ledger(lambda ledger: ledger.dead(root=_root(root), limit=limit))
    _print(found, _DEAD_COLUMNS, as_json, nothing="no dead letters")


@jobs.command()
def history(
    root: RootOption = None,
    key: Annotated[str | None, typer.Option(help="Only the runs of this job.")] = None,
    limit: LimitOption = 100,
    as_json: JsonOption = False,
) -> None:
    """Show the runs that ended, the newest first."""
    found = _with_ledger(lambda ledger: ledger.history(root=_root(root), key=key, limit=limit))
    _print(found, _HISTORY_COLUMNS, as_json, nothing="no run has ended yet")


@jobs.command()
def show(key: KeyArgument, as_json: JsonOption = False) -> None:
    """Show all there is to know of one job, a finished one too."""
    job = _with_ledger(lambda ledger: ledger.show(key))
    if job is None:
        raise _unknown(key)
    if as_json:
        print_json(job)
    else:
        console().print(table([job], _DETAIL_COLUMNS, width=0))


@jobs.command()
def run(key: KeyArgument, as_json: JsonOption = False) -> None:
    """Make a waiting job due now, ahead of all others; its delay is ignored."""

    async def make_due(ledger: Ledger) -> Changed:
        return Changed(key=key, state=_known(key, await ledger.run_now(key)))

    _report([_with_ledger(make_due)], as_json, "due now")


@jobs.command()
def retry(
    keys: KeysArgument = None,
    all_: AllOption = False,
    root: RootOption = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Give dead letters another series of attempts."""
    chosen = _chosen(keys, all_, root, "retried", yes)

    async def revive(ledger: Ledger) -> list[Changed]:
        revived = await ledger.retry(chosen)
        states = [await ledger.status(key) for key in chosen]
        if not all_:
            for key, done in zip(chosen, revived, strict=True):
                if not done:
                    raise NotFoundError(f"no dead letter has the key `{key}`: see `tinymemory jobs dead`")
        return [Changed(key=key, state=status.state) for key, status in zip(chosen, states, strict=True)]

    _report(_with_ledger(revive), as_json, "retried")


@jobs.command()
def drop(keys: KeysArgument = None, yes: YesOption = False, as_json: JsonOption = False) -> None:
    """Cancel jobs, running ones too; what they would have stored is discarded."""
    if not keys:
        raise InvalidRequestError("name the keys to drop, or use `jobs erase --root`")
    if len(keys) > 1:
        confirm(f"Drop {len(keys)} jobs?", yes=yes)

    async def cancel(ledger: Ledger) -> list[Changed]:
        return [Changed(key=key, state=_dropped(_known(key, await ledger.drop(key)))) for key in keys]

    _report(_with_ledger(cancel), as_json, "dropped")


@jobs.command()
def erase(
    root: Annotated[str, typer.Option("--root", help="The tenant's root, such as team:acme.")],
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Remove every trace of a tenant from the ledger and the spool; its memory is not touched."""
    place = Namespace.parse(root)
    confirm(f"Erase every job, dead letter, history record and spooled line of {place}?", yes=yes)
    settings = WorkerSettings.load()
    records = _with_ledger(lambda ledger: ledger.erase(str(place)))
    spool = _spool(settings)
    lines = spool.erase(place) if spool else 0
    if as_json:
        print_json({"root": str(place), "records": records, "spool_lines": lines})
    else:
        console().print(f"erased {records} records and {lines} spooled lines of {place}")


@jobs.command()
def stats(
    by_root: Annotated[bool, typer.Option("--by-root", help="What each root is owed.")] = False,
    limit: LimitOption = 100,
    as_json: JsonOption = False,
) -> None:
    """Count what the ledger holds, by state or by root."""
    if by_root:
        roots = _with_ledger(lambda ledger: ledger.stats_by_root(limit=limit))
        _print(roots, _ROOT_COLUMNS, as_json, nothing="nothing is owed")
        return
    found = _with_ledger(_read_stats)
    if as_json:
        print_json(found)
    else:
        out = console()
        out.print(_stats_view(found, width=out.width))


@jobs.command()
def watch(
    root: RootOption = None,
    limit: LimitOption = 20,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 1.0,
    as_json: Annotated[bool, typer.Option("--json", help="An array a look, each in a line.")] = False,
) -> None:
    """Follow the ledger live, until Ctrl-C."""
    place = _root(root)
    out = console()

    async def look(ledger: Ledger) -> RenderableType:
        rows = await ledger.jobs(root=place, limit=limit)
        summary = _stats_view(await _read_stats(ledger), width=out.width)
        now = instant_text(datetime.now(UTC).replace(microsecond=0))
        heading = Text(f"{now}  tinymemory jobs", style="dim")
        return Group(heading, summary, Text(), table(rows, _JOB_COLUMNS, width=out.width))

    async def follow(ledger: Ledger) -> None:
        while as_json:
            print_json(await ledger.jobs(root=place, limit=limit))
            await asyncio.sleep(every)
        if not out.is_terminal or out.is_dumb_terminal:
            # Nothing can be drawn over here: each look follows the one before.
            while True:
                out.print(await look(ledger), Text())
                await asyncio.sleep(every)
        with Live(console=out, auto_refresh=False) as live:
            while True:
                live.update(await look(ledger), refresh=True)
                await asyncio.sleep(every)

    _with_ledger(follow)


def _with_ledger(work: Callable[[Ledger], Awaitable[T]]) -> T:
    async def connected() -> T:
        async with open_ledger(WorkerSettings.load()) as ledger:
            return await work(ledger)

    return asyncio.run(connected())


def _root(text: str | None) -> str | None:
    return None if text is None else str(Namespace.parse(text))


def _chosen(keys: list[str] | None, all_: bool, root: str | None, verb: str, yes: bool) -> list[str]:
    if keys and not all_:
        return keys
    if not all_:
        raise InvalidRequestError("name keys, or pass --all (with --root for one tenant)")
    place = _root(root)
    letters = _with_ledger(lambda ledger: ledger.dead(root=place, limit=100_000))
    if letters:
        confirm(f"{len(letters)} dead letters will be {verb}. Go on?", yes=yes)
    return [letter.key for letter in letters]


def _known(key: str, state: JobState) -> JobState:
    if state is JobState.UNKNOWN:
        raise _unknown(key)
    return state


def _dropped(found: JobState) -> JobState:
    return found if found is JobState.DONE else JobState.CANCELLED


def _unknown(key: str) -> NotFoundError:
    return NotFoundError(f"the ledger knows no job `{key}`: see `tinymemory jobs list` and `jobs history`")


def _report(changed: list[Changed], as_json: bool, verb: str) -> None:
    if as_json:
        print_json(changed)
        return
    for one in changed:
        console().print(f"{one.key}  ", state_text(one.state), sep="")
    typer.echo(f"{len(changed)} {verb}", err=True)


def _print(rows: list[T], columns: list[Column[T]], as_json: bool, *, nothing: str) -> None:
    if as_json:
        print_json(rows)
    elif rows:
        out = console()
        out.print(table(rows, columns, width=out.width))
    else:
        typer.echo(nothing, err=True)


async def _read_stats(ledger: Ledger) -> Stats:
    spool = _spool(WorkerSettings.load())
    found = await ledger.stats()
    counted = {name: getattr(found, name) for name in StatsView.model_fields}
    return Stats(**counted, spool=spool.stats() if spool else SpoolStats())


def _spool(settings: WorkerSettings) -> Spool | None:
    return Spool(settings.spool_dir, limit=settings.spool_limit) if settings.spool_dir else None


def _stats_view(found: Stats, *, width: int) -> RenderableType:
    names = ("waiting", "due", "queued", "running", "parked", "dead", "done_total", "retried_total")
    # Only when there are any: most engines never say it.
    names += ("throttled_total",) if found.throttled_total else ()
    counts = Text("  ").join(
        Text.assemble((str(getattr(found, name)), "bold"), f" {name.removesuffix('_total')}")
        for name in names
    )
    lines: list[RenderableType] = [counts]
    if found.oldest_due_age_s is not None:
        lines.append(Text(f"oldest due for {duration(found.oldest_due_age_s)}"))
    if found.breakers:
        lines.append(table(found.breakers, _BREAKER_COLUMNS, width=width))
    if found.spool.lines:
        lines.append(Text(f"spool: {found.spool.lines} jobs in {found.spool.files} files", style="yellow"))
    return Group(*lines)


def _why(job: JobView | HistoryView) -> str:
    return f"{job.error.kind}: {job.error.message}" if job.error else ""


_JOB_COLUMNS: list[Column[JobView]] = [
    Column("KEY", lambda job: job.key),
    Column("SCOPE", lambda job: job.scope, below=True),
    Column("STATE", lambda job: state_text(job.state)),
    Column("DUE", lambda job: ago(job.due_at)),
    Column("AGE", lambda job: age(job.first_enqueued_at)),
    Column("MERGED", lambda job: str(job.merged), right=True),
    Column("TRIES", lambda job: str(job.attempts), right=True),
    Column("ERROR", _why, below=True),
]
_DEAD_COLUMNS: list[Column[JobView]] = [
    Column("KEY", lambda job: job.key),
    Column("SCOPE", lambda job: job.scope, below=True),
    Column("TRIES", lambda job: str(job.attempts), right=True),
    Column("LOST", lambda job: str(job.losses), right=True),
    Column("ENQUEUED", lambda job: ago(job.first_enqueued_at)),
    Column("ERROR", _why, below=True),
]
_HISTORY_COLUMNS: list[Column[HistoryView]] = [
    Column("KEY", lambda run: run.key),
    Column("SCOPE", lambda run: run.scope, below=True),
    Column("OUTCOME", lambda run: state_text(run.outcome)),
    Column("BUILT", lambda run: "" if run.built is None else str(run.built), right=True),
    Column("STORED", lambda run: "" if run.stored is None else str(run.stored), right=True),
    Column("TRIES", lambda run: str(run.attempts), right=True),
    Column("MERGED", lambda run: str(run.merged), right=True),
    Column("WAITED", lambda run: duration(run.waited_s), right=True),
    Column("RAN", lambda run: duration(run.ran_s), right=True),
    Column("LAG", lambda run: duration(run.lag_s), right=True),
    Column("FINISHED", lambda run: ago(run.finished_at)),
    Column("ERROR", lambda run: f"into {run.into}" if run.into else _why(run), below=True),
]
_ROOT_COLUMNS: list[Column[RootStats]] = [
    Column("ROOT", lambda one: one.root),
    Column("WAITING", lambda one: str(one.waiting), right=True),
    Column("DUE", lambda one: str(one.due), right=True),
    Column("IN FLIGHT", lambda one: str(one.in_flight), right=True),
    Column("PARKED", lambda one: str(one.parked), right=True),
    Column("OLDEST DUE", lambda one: duration(one.oldest_due_age_s), right=True),
]
_BREAKER_COLUMNS: list[Column[BreakerView]] = [
    Column("BREAKER", lambda one: f"{one.profile} {one.root or '(whole profile)'}"),
    Column("PARKED", lambda one: str(one.parked), right=True),
    Column("SINCE", lambda one: ago(one.since)),
    Column("NEXT PROBE", lambda one: ago(one.next_probe_at)),
    Column("REASON", lambda one: one.reason, below=True),
]
_DETAIL_COLUMNS: list[Column[JobDetail]] = [
    Column("key", lambda job: job.key),
    Column("type", lambda job: job.type),
    Column("root", lambda job: job.root),
    Column("scope", lambda job: job.scope),
    Column("profile", lambda job: job.profile),
    Column("queue", lambda job: job.queue),
    Column("state", lambda job: state_text(job.state)),
    Column("due", lambda job: ago(job.due_at)),
    Column("first enqueued", lambda job: ago(job.first_enqueued_at)),
    Column("last enqueued", lambda job: ago(job.last_enqueued_at)),
    Column("merged", lambda job: str(job.merged)),
    Column("attempts", lambda job: str(job.attempts)),
    Column("losses", lambda job: str(job.losses)),
    Column("worker", lambda job: job.worker or ""),
    Column("run", lambda job: job.run or ""),
    Column("lease ends", lambda job: ago(job.lease_ends_at)),
    Column("outcome", lambda job: job.outcome.value if job.outcome else ""),
    Column("folded into", lambda job: job.into or ""),
    Column("finished", lambda job: ago(job.finished_at)),
    Column("error", _why),
]
