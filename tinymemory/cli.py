"""The `tinymemory` command: one door to every part that is installed.

Each part offers a typer app under the entry-point group `tinymemory.commands`; this module knows
none of them.  Results go to stdout, errors to stderr, and the exit code says what a script can do.
"""

import os
import sys
from importlib.metadata import entry_points, version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tinymemory.errors import TinyMemoryError
from tinymemory.exit import ExitCode

COMMAND_GROUP = "tinymemory.commands"


class _Group(TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except TinyMemoryError as error:
            typer.secho(f"error: {error}", fg="red", err=True)
            raise typer.Exit(ExitCode.of(error)) from error
        except BrokenPipeError:
            # `tinymemory jobs list | head`: whoever read has seen enough.
            _discard_output()
            raise typer.Exit(ExitCode.BROKEN_PIPE) from None


def build_app(command: str | None = None) -> typer.Typer:
    """The command line with the commands of every part that is installed.

    Given a command that is a part of its own, that part alone: an MCP client that starts
    `tinymemory mcp` need not wait for the job layer to be imported.
    """
    parts, missing = _parts(command)
    app = typer.Typer(
        cls=_Group,
        help="The long-term memory of AI agents, and the workers that do its slow work.",
        epilog="  ".join(missing) or None,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(_top)
    for part in parts:
        app.add_typer(part)
    return app


def main() -> None:
    """Run the command of this process's arguments and exit with its code."""
    try:
        build_app(next((word for word in sys.argv[1:] if not word.startswith("-")), None))()
    finally:
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            _discard_output()


def _top(
    show_version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if show_version:
        typer.echo(version("tinymemory"))
        raise typer.Exit


def _parts(command: str | None) -> tuple[list[typer.Typer], list[str]]:
    parts: list[typer.Typer] = []
    missing: list[str] = []
    entries = entry_points(group=COMMAND_GROUP)
    alone = entries.select(name=command) if command else ()
    for entry in sorted(alone or entries, key=lambda entry: entry.name):
        try:
            parts.append(entry.load())
        except ModuleNotFoundError as error:
            missing.append(
                f"The {entry.name} commands need {error.name}: pip install 'tinymemory[{entry.name}]'."
            )
    return parts, missing


def _discard_output() -> None:
    # The interpreter flushes stdout once more on its way out, and would complain again.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
