"""`tinymemory doctor`: what is wrong, and what to do about it."""

import asyncio

import typer
from rich.text import Text

from tinymemory.exit import ExitCode
from workers.commands.output import Column, JsonOption, console, print_json, table
from workers.settings import WorkerSettings

_COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}


def doctor(as_json: JsonOption = False) -> None:
    """Check Redis, broker, workers, beat, engines and clocks, and say what to do about each.

    Exits 1 when there is a problem; warnings alone are 0.
    """
    from workers.doctor import Finding, Verdict, examine  # kombu takes a while, and only this needs it

    findings = asyncio.run(examine(WorkerSettings.load()))
    columns: list[Column[Finding]] = [
        Column("CHECK", lambda one: one.check),
        Column("", lambda one: Text(one.verdict.value, style=_COLOURS[one.verdict.value])),
        Column("FOUND", lambda one: one.found, below=True),
        Column("WHAT TO DO", lambda one: one.advice or "", below=True),
    ]
    if as_json:
        print_json(findings)
    else:
        out = console()
        out.print(table(findings, columns, width=out.width))
    if any(one.verdict is Verdict.PROBLEM for one in findings):
        raise typer.Exit(ExitCode.FAILED)
