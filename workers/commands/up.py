"""`tinymemory up`: everything on one machine."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from workers.commands.output import print_json
from workers.settings import OwnSettings
from workers.up import DEFAULT_FLOWER_PORT, UpOptions, UpState
from workers.up import up as run_everything


def up(
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Where the broker and the engine keep their files.", show_default=False),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            help="The engine the worker builds with; cortex-local runs a CortexDB from memory beside it.",
            show_default="sqlite",
        ),
    ] = None,
    extraction_delay: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Seconds the facts of cortex-local lag behind the writes.",
            show_default="half of build_delay",
        ),
    ] = None,
    pool: Annotated[str, typer.Option("--pool", "-P", help="threads, prefork or solo.")] = "threads",
    concurrency: Annotated[
        int, typer.Option("--concurrency", "-c", min=1, help="Jobs the worker runs at once.")
    ] = 8,
    flower_port: Annotated[int, typer.Option(min=1, max=65535, help="Where Flower listens.")] = (
        DEFAULT_FLOWER_PORT
    ),
    no_flower: Annotated[bool, typer.Option("--no-flower", help="Run without Flower.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="When all runs, print where it listens.")] = False,
) -> None:
    """Run broker, worker, beat and Flower on this machine, until Ctrl-C.

    The broker is a Redis server of its own, unless TINYMEMORY_REDIS_URL names one.  Hosts and
    commands that use the same data_dir find it by themselves while this runs.
    """
    settings = OwnSettings.load(**({} if data_dir is None else {"data_dir": data_dir}))
    flower = None if no_flower else flower_port
    options = UpOptions(flower, pool, concurrency, engine, extraction_delay)
    run_everything(settings, options, print_json if as_json else lambda state: _announce(state, settings))


def _announce(state: UpState, settings: OwnSettings) -> None:
    out = Console(stderr=True)
    out.print(f"\n[bold]TinyMemory is up[/bold], with its files in {settings.data_dir.resolve()}")
    if state.flower_url:
        out.print(f"Flower: {state.flower_url}")
    if state.environment:
        out.print("The memory is a CortexDB that forgets when this ends.  For a host to use it:")
        for name, value in state.environment.items():
            out.print(f"  export {name}={value}", markup=False, highlight=False)
    out.print("From another terminal: tinymemory jobs watch\n")
