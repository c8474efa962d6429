"""The job layer's commands, each in a module of its own under `workers.commands`."""

import typer

from workers.commands.flower import flower
from workers.commands.jobs import jobs
from workers.commands.up import up
from workers.commands.worker import worker

commands = typer.Typer()
commands.command()(up)
commands.command()(worker)
commands.command()(flower)
commands.add_typer(jobs)
