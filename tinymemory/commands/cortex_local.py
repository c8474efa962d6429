"""`tinymemory cortex-local`: a CortexDB for development, in memory, as a process of its own."""

import asyncio
from typing import Annotated

import typer

from tinymemory.errors import ConfigError
from tinymemory.testing.process import PORT, serve, welcome

commands = typer.Typer()


@commands.command("cortex-local")
def cortex_local(
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any free one.")] = PORT,
    host: Annotated[str, typer.Option(help="Where to listen; any key is accepted there.")] = "127.0.0.1",
    extraction_delay: Annotated[
        float, typer.Option(min=0, help="Seconds the facts that beliefs are built from lag behind.")
    ] = 0.0,
    hosted: Annotated[bool, typer.Option("--hosted", help="Speak the hosted wire instead.")] = False,
) -> None:
    """Serve a CortexDB from memory for development, until it is stopped."""
    wire = "hosted" if hosted else "direct"
    knobs = {"extraction_delay": extraction_delay}

    def announce(url: str) -> None:
        typer.echo(welcome(wire, url, knobs))

    try:
        asyncio.run(serve(wire, host=host, port=port, announce=announce, **knobs))
    except OSError as error:
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror}") from error
