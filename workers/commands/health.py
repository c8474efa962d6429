"""`tinymemory health`: one exit code for a container's probe."""

import os
from enum import StrEnum
from typing import Annotated

import typer
from redis.exceptions import RedisError

from workers.access import in_words
from workers.health import ensure_flower_well, ensure_well
from workers.settings import WorkerSettings


class Part(StrEnum):
    """What can be asked about."""

    WORKER = "worker"
    BEAT = "beat"
    FLOWER = "flower"


PartArgument = Annotated[Part, typer.Argument(help="Which process of this machine.")]


def health(part: PartArgument = Part.WORKER) -> None:
    """Exit 0 when the worker (or beat, or Flower) on this machine is well, and say why when it is not.

    A worker is well when it has its broker, the loop that runs its jobs turns, and it takes what
    waits for it; one that has lost its broker is not well after 30 s.
    """
    if part is Part.FLOWER:
        address, port = os.environ.get("FLOWER_ADDRESS", ""), os.environ.get("FLOWER_PORT", "5555")
        host = "127.0.0.1" if address in ("", "0.0.0.0", "::") else address  # not a bind
        ensure_flower_well(f"http://{host}:{port}")
        typer.echo("flower: answers")
        return
    settings = WorkerSettings.load()
    try:
        lines = ensure_well(settings, [part.value])
    except RedisError as error:
        raise in_words(error, settings) from error
    for line in lines:
        typer.echo(line)
