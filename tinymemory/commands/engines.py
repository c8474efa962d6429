"""`tinymemory engines`: which engines there are, and what each still needs."""

import json
import os
import sys
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from tinymemory.config import MemoryConfig
from tinymemory.engine import EngineDescriptor
from tinymemory.engines.credential import EngineCredential, key_variable
from tinymemory.engines.registry import list_engines
from tinymemory.errors import ConfigError
from tinymemory.exit import ExitCode

WIDE = 160
"""Below this many columns a table would fold every cell: each engine becomes a block of lines."""

commands = typer.Typer()


@commands.command("engines")
def engines(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List the engines: where each runs, what it can do, and the key it needs."""
    config, fault = _config()
    rows = [_row(descriptor, config) for descriptor in list_engines()]
    if as_json:
        typer.echo(json.dumps(rows, ensure_ascii=False))
    else:
        console = Console(width=None if sys.stdout.isatty() else 200)
        console.print(_table(rows) if console.width >= WIDE else _blocks(rows))
    if fault is not None:
        typer.secho(f"error: {fault}", fg="red", err=True)
        raise typer.Exit(ExitCode.CONFIG)


def _config() -> tuple[MemoryConfig | None, ConfigError | None]:
    # Whoever named an engine that does not exist needs the list all the more.
    try:
        return MemoryConfig.from_env(), None
    except ConfigError as error:
        return None, error


def _row(descriptor: EngineDescriptor, config: MemoryConfig | None) -> dict[str, Any]:
    settings = config.engines.get(descriptor.id) if config else None
    variable = (settings and settings.key_env) or key_variable(descriptor.id)
    row: dict[str, Any] = {
        **dict.fromkeys(EngineDescriptor.model_fields),  # the unset ones as null
        **descriptor.model_dump(mode="json"),
        "chosen": config is not None and config.engine == descriptor.id,
        "endpoint": (settings and settings.endpoint) or descriptor.default_endpoint,
    }
    if descriptor.needs_key:
        found = EngineCredential.from_env(variable, environ=os.environ)
        row |= {"key_env": variable, "key_set": found is not None}
    return row


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table("", "ENGINE", box=None, pad_edge=False)
    for title in _cells(rows[0]):
        table.add_column(title.upper())
    for row in rows:
        table.add_row("*" if row["chosen"] else "", row["id"], *_cells(row).values())
    return table


def _blocks(rows: list[dict[str, Any]]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    for row in rows:
        table.add_row("[bold]engine[/bold]", f"[bold]{row['id']}[/bold]{' *' if row['chosen'] else ''}")
        for title, cell in _cells(row).items():
            table.add_row(title, cell)
        table.add_row("", "")
    return table


def _cells(row: dict[str, Any]) -> dict[str, str]:
    return {
        "where": row["endpoint"] or "this process",
        "fetch": " ".join(row["fetch_modes"]),
        "beliefs": row["consolidation"].replace("_", " "),
        "key": _key(row),
        "what it is": row["description"],
    }


def _key(row: dict[str, Any]) -> str:
    if not row["needs_key"]:
        return "none"
    return f"{row['key_env']} ({'set' if row['key_set'] else '[red]not set[/red]'})"
