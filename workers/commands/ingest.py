"""`tinymemory ingest`: files into the brain."""

import asyncio
import sys
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from tinymemory.errors import ConfigError, InvalidRequestError, TinyMemoryError
from tinymemory.exit import ExitCode
from tinymemory.layout import BrainSource
from tinymemory.namespace import Namespace
from workers.client import MemoryJobs
from workers.commands.output import Column, JsonOption, console, print_json, table
from workers.settings import DEFAULT_PROFILE, MIB, WorkerSettings


def ingest(
    paths: Annotated[
        list[str], typer.Argument(help="Files, folders, patterns, or - for stdin.", show_default=False)
    ],
    root: Annotated[
        str, typer.Option("--root", envvar="TINYMEMORY_ROOT", help="The tenant's root.")
    ] = "root",
    source: Annotated[
        str | None, typer.Option(help="File all under this source, not the one each format implies.")
    ] = None,
    profile: Annotated[str, typer.Option(help="The engine's profile.")] = DEFAULT_PROFILE,
    name: Annotated[str, typer.Option(help="What to call the document on stdin.")] = "stdin",
    scrub: Annotated[
        bool,
        typer.Option("--scrub", envvar="TINYMEMORY_SCRUB", help="Take out secrets and personal identifiers."),
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the workers have stored them.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Go on with what changes, until Ctrl-C.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Send what was sent before, too.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Convert, and send nothing.")] = False,
    max_file: Annotated[int, typer.Option(min=1, help="MiB a file may have.")] = 32,
    max_unpacked: Annotated[int, typer.Option(min=1, help="MiB an archive may unpack to.")] = 64,
    max_cells: Annotated[int, typer.Option(min=1, help="Cells a workbook or table may have.")] = 1_000_000,
    as_json: JsonOption = False,
) -> None:
    """Convert files and hand them to the workers; markdown, text, code, HTML, PDF, Office, CSV, mail, EPUB.

    Repeated or cut short, it sends only what is new or has changed; a changed file's old document is
    forgotten once its new one is stored.  Exits 0 when every file was
    accepted, 1 when one failed, or was sent before and given up, 75 when nothing could be submitted.
    """
    try:
        from tinymemory.documents import ConversionLimits, Converters
        from workers.filing import Filing, FilingOptions
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"ingesting files needs {error.name}: pip install 'tinymemory[documents]'"
        ) from None

    limits = ConversionLimits(file_bytes=max_file * MIB, unpacked_bytes=max_unpacked * MIB, cells=max_cells)
    options = FilingOptions(
        root=Namespace.parse(root),
        source=BrainSource(source) if source else None,
        profile=profile,
        scrub=scrub,
        dry_run=dry_run,
        again=again,
    )
    followed = [Path(path) for path in paths if watch and Path(path).is_dir()]
    if watch and not followed:
        raise InvalidRequestError("--watch needs a folder to follow")
    if watch and dry_run:
        raise InvalidRequestError("--watch sends what changes: it cannot be combined with --dry-run")
    shown = _Shown(quiet=as_json)

    async def run() -> Any:
        async with (
            Converters(limits, processes=options.at_once) as converters,
            MemoryJobs(WorkerSettings.load()) as jobs,
        ):
            filing = Filing(converters, jobs, options, on_filed=shown.filed)
            with shown.progress:
                try:
                    await _send(filing, paths, name, shown)
                except TinyMemoryError as error:
                    if not filing.handles:
                        raise
                    return filing, [], error  # part of it is on its way, and is told of first
                bad = await _wait(filing, shown) if wait and not dry_run else []
                if not dry_run:
                    await filing.replace(_REPLACE_SECONDS)
                if followed:
                    await _follow(filing, followed, shown)
            return filing, bad, None

    try:
        filing, bad, stopped = asyncio.run(run())
    except KeyboardInterrupt:
        typer.echo("interrupted; the same command goes on where it was", err=True)
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    _report(shown, filing, bad, as_json)
    if stopped is not None:
        typer.secho(f"error: {stopped}", fg="red", err=True)
        typer.echo("what was accepted stays so; the same command sends the rest", err=True)
    if stopped or shown.failed or bad:
        raise typer.Exit(ExitCode.FAILED)
    if filing.unasked and not filing.handles:
        raise typer.Exit(ExitCode.UNREACHABLE)


_REPLACE_SECONDS = 5.0
"""How long a command that could end waits for the new documents of changed files."""
_LOOK_SECONDS = 2.0
"""How often a watch looks for old documents to forget."""


class _Shown:
    """What the person at the terminal sees of it, and what is reported in the end."""

    def __init__(self, *, quiet: bool) -> None:
        self.counts: Counter[str] = Counter()
        self.failed: list[Any] = []
        self.converted: list[Any] = []
        self.progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TextColumn("{task.fields[failed]}", style="red"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            disable=quiet or not sys.stderr.isatty(),
        )
        self._task = self.progress.add_task("files", total=None, rate="", failed="")
        self._parked_is_told = False

    def expect(self, files: int) -> None:
        """So many files will come."""
        self.progress.update(self._task, total=files)

    def filed(self, one: Any) -> None:
        """A file is done with, one way or another."""
        self.counts[one.state.value] += 1
        if one.state.value == "failed":
            self.failed.append(one)
        elif one.state.value == "converted":
            self.converted.append(one)
        speed = self.progress.tasks[0].speed
        self.progress.update(
            self._task,
            advance=1,
            rate=f"{speed:.0f}/s" if speed else "",
            failed=f"{len(self.failed)} failed" if self.failed else "",
        )

    def parked(self, jobs: int) -> None:
        """So many jobs wait for the engine; once is enough to know why the bar stands still."""
        if not self._parked_is_told:
            self._parked_is_told = True
            self.progress.console.print(
                f"parked: {jobs} of the jobs, since their engine is away or refuses the account; see "
                "tinymemory jobs stats. They go on by themselves once it is well; Ctrl-C leaves them to "
                "the workers.",
                markup=False,
                highlight=False,
                soft_wrap=True,
            )


async def _send(filing: Any, paths: list[str], name: str, shown: _Shown) -> None:
    from tinymemory.documents import RawDocument
    from workers.filing import STDIN, find_files

    files = list(find_files([path for path in paths if path != STDIN]))
    shown.expect(len(files) + paths.count(STDIN))
    if STDIN in paths:
        data = await asyncio.to_thread(sys.stdin.buffer.read)
        await filing.send_bytes(RawDocument(data, name))
    await filing.send(files)


async def _wait(filing: Any, shown: _Shown) -> list[Any]:
    task = shown.progress.add_task("jobs", total=len(filing.awaited), rate="", failed="")
    return await filing.wait(lambda: shown.progress.advance(task), shown.parked)


async def _follow(filing: Any, folders: list[Path], shown: _Shown) -> None:
    from workers.filing import changed_files

    replacing = asyncio.create_task(_keep_replacing(filing))
    try:
        is_first = True
        told = 0
        async for files in changed_files(folders):
            if is_first:
                is_first = False
                typer.echo("following " + ", ".join(map(str, folders)) + "; Ctrl-C ends it", err=True)
            await filing.send(await asyncio.to_thread(filing.unsent, files))
            for failed in shown.failed[told:]:
                typer.echo(failed.error, err=True)
            told = len(shown.failed)
    finally:
        replacing.cancel()


async def _keep_replacing(filing: Any) -> None:
    while True:
        await filing.replace()
        await asyncio.sleep(_LOOK_SECONDS)


def _report(shown: _Shown, filing: Any, bad: list[Any], as_json: bool) -> None:
    if filing.unasked:
        typer.echo(f"whether the unchanged files were stored could not be asked ({filing.unasked})", err=True)
    replaced, outdated = sorted(set(filing.replacing.replaced)), sorted(filing.replacing.left)
    if as_json:
        print_json(
            {
                "accepted": shown.counts["accepted"],
                "unchanged": shown.counts["unchanged"],
                "failed": shown.failed,
                "replaced": replaced,
                "outdated": outdated,
                "converted": shown.converted,
                "scrubbed": {mark.value: count for mark, count in filing.scrubbed.items()},
                "jobs": [handle.key for handle in filing.handles],
                "jobs_failed": [{"key": key, "state": state.value} for key, state in bad],
            }
        )
        return
    out = console()
    if shown.converted:
        out.print(table(shown.converted, _CONVERTED, width=out.width))
    if replaced:
        out.print(table(replaced, _REPLACED, width=out.width))
    if shown.failed:
        out.print(table(shown.failed, _FAILED, width=out.width))
    for key, state in bad:
        typer.echo(f"{key} is {state.value}: see tinymemory jobs show {key}")
    summary = ", ".join(f"{count} {state}" for state, count in sorted(shown.counts.items()))
    typer.echo(summary or "no files", err=True)
    if outdated:
        why = filing.replacing.error or "their new ones are not stored yet"
        typer.echo(
            f"{len(outdated)} changed files keep their old documents for now ({why}); "
            "the next ingest replaces them",
            err=True,
        )
    if filing.scrubbed:
        taken = ", ".join(f"{count} {mark.value}" for mark, count in filing.scrubbed.items())
        typer.echo(f"scrubbed: {taken}", err=True)


_CONVERTED: list[Column[Any]] = [
    Column("FILE", lambda one: one.path),
    Column("TITLE", lambda one: one.title or "", below=True),
    Column("CHARACTERS", lambda one: str(one.characters), right=True),
    Column("REPLACES", lambda one: "its old one" if one.replaces else ""),
]
_REPLACED: list[Column[Any]] = [Column("REPLACED", lambda path: path)]
_FAILED: list[Column[Any]] = [
    Column("FILE", lambda one: one.path),
    Column("REASON", lambda one: one.reason or ""),
    Column("WHAT IS WRONG", lambda one: one.error or "", below=True),
]
