"""How commands show things: tables for people, JSON for scripts, both of the same values."""

import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Generic, TypeVar

import typer
from pydantic import BaseModel
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tinymemory.model import instant_text
from workers.ledger import JobState, Outcome

V = TypeVar("V")
_UNBOUNDED = 10_000
_GAP = 2

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
RootOption = Annotated[str | None, typer.Option("--root", help="Only this root, such as team:acme.")]
LimitOption = Annotated[int, typer.Option("--limit", "-n", min=1, help="Show at most so many.")]

_COLOURS = {
    "waiting": "cyan",
    "queued": "blue",
    "running": "green",
    "parked": "yellow",
    "dead": "red",
    "lost": "red",
    "retry": "yellow",
    "cancelled": "magenta",
}


@dataclass(frozen=True, slots=True)
class Column(Generic[V]):
    """One column of a table of `V`."""

    title: str
    cell: Callable[[V], str | Text]
    right: bool = False
    below: bool = False
    """Where the row does not fit in one line, this goes in a line of its own below it."""


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to whoever runs the command: rich would exit with 1, as if something had failed."""
        raise BrokenPipeError


def console() -> Console:
    """Where results go; it honours NO_COLOR, COLUMNS and a stdout that is no terminal."""
    # A pipe has no width of its own, and a script's `grep` should find a job in one line.
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        return _Console(width=_UNBOUNDED)
    # Rich takes any terminal without escapes for 80 columns.
    dumb = os.environ.get("TERM", "") in ("dumb", "unknown")
    columns, lines = shutil.get_terminal_size()
    return _Console(width=columns, height=lines) if dumb else _Console()


def print_json(value: BaseModel | Sequence[BaseModel] | Any) -> None:
    """One JSON document on stdout: an object, or an array of them."""
    typer.echo(json.dumps(_plain(value), ensure_ascii=False))


def table(rows: Sequence[V], columns: Sequence[Column[V]], *, width: int) -> RenderableType:
    """A table of the rows in which no key is cut, so that it can be copied.

    Where a row has no room in one line, what may go below it does; where that is not enough, each
    row is lines of `title value`.
    """
    movable = [column for column in columns if column.below]
    if _natural_width(rows, columns) <= width:
        return _grid(rows, columns)
    for kept in range(len(movable) - 1, -1, -1):
        below = movable[kept:]
        beside = [column for column in columns if column not in below]
        if _natural_width(rows, beside) <= width:
            return _two_lines(rows, beside, below)
    return _blocks(rows, columns)


def state_text(state: JobState | Outcome) -> Text:
    """A state in its colour."""
    return Text(state.value, style=_COLOURS.get(state.value, ""))


def ago(at: datetime | None, *, now: datetime | None = None) -> str:
    """How far an instant is: `in 4m`, `12s ago`."""
    if at is None:
        return ""
    seconds = (at - (now or datetime.now(UTC))).total_seconds()
    return f"in {duration(seconds)}" if seconds > 0 else f"{duration(-seconds)} ago"


def age(since: datetime) -> str:
    """How long ago an instant is, as a span."""
    return duration(max(0.0, (datetime.now(UTC) - since).total_seconds()))


def duration(seconds: float | None) -> str:
    """A span with one unit: `0.2s`, `14s`, `5m`, `3h`, `2d`."""
    if seconds is None:
        return ""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:.1f}s" if seconds < 10 else f"{seconds:.0f}s"


def confirm(question: str, *, yes: bool) -> None:
    """Go on when the answer is yes; without a terminal to ask, only `--yes` is one."""
    if yes:
        return
    if not sys.stdin.isatty():
        typer.secho(f"{question} Not asked, since stdin is no terminal: pass --yes.", fg="red", err=True)
        raise typer.Exit(2)
    typer.confirm(question, abort=True)


def _text(cell: str | Text) -> Text:
    # A plain string would be read as markup, and `[conversation]` taken for a colour.
    return Text(cell) if isinstance(cell, str) else cell


def _width(column: Column[V], rows: Sequence[V]) -> int:
    return max(len(column.title), *(_text(column.cell(row)).cell_len for row in rows), 0)


def _natural_width(rows: Sequence[V], columns: Sequence[Column[V]]) -> int:
    return sum(_width(column, rows) + _GAP for column in columns) - _GAP


def _grid(rows: Sequence[V], columns: Sequence[Column[V]]) -> Table:
    grid = Table(box=None, pad_edge=False, header_style="bold", padding=(0, _GAP, 0, 0))
    for column in columns:
        grid.add_column(column.title, justify="right" if column.right else "left", no_wrap=True)
    for row in rows:
        grid.add_row(*(_text(column.cell(row)) for column in columns))
    return grid


def _two_lines(rows: Sequence[V], beside: Sequence[Column[V]], below: Sequence[Column[V]]) -> Group:
    widths = [_width(column, rows) for column in beside]

    def line(cells: Sequence[str | Text], style: str = "") -> Text:
        padded: list[Text] = []
        for cell, column, width in zip(cells, beside, widths, strict=True):
            text = _text(cell).copy()
            text.align("right" if column.right else "left", width)
            padded.append(text)
        joined = Text(" " * _GAP).join(padded)
        joined.stylize(style)
        return joined

    lines: list[RenderableType] = [line([column.title for column in beside], "bold")]
    for row in rows:
        lines.append(line([column.cell(row) for column in beside]))
        told = [_text(column.cell(row)) for column in below]
        lines += [Padding(text, (0, 0, 0, _GAP)) for text in told if text]
    return Group(*lines)


def _blocks(rows: Sequence[V], columns: Sequence[Column[V]]) -> Table:
    grid = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 0))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for row in rows:
        for column in columns:
            if told := _text(column.cell(row)):
                grid.add_row(column.title, told)
        grid.add_row("", "")
    return grid


def _plain(value: Any) -> Any:
    match value:
        case BaseModel():
            # Every field, the unset ones as null: a script should not have to ask which are there.
            return {name: _plain(getattr(value, name)) for name in type(value).model_fields}
        case datetime():
            return instant_text(value)
        case _ if is_dataclass(value) and not isinstance(value, type):
            return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        case list() | tuple():
            return [_plain(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
        case _:
            return value
