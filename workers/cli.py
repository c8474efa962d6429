"""The job layer's commands, each in a module of its own under `workers.commands`."""

import typer

from workers.commands.doctor import doctor
from workers.commands.flower import flower
from workers.commands.health import health
from workers.commands.ingest import ingest
from workers.commands.jobs import jobs
from workers.commands.spool import spool
from workers.commands.up import up
from workers.commands.worker import worker

commands = typer.Typer()
commands.command()(up)
commands.command()(worker)
commands.command()(flower)
commands.command()(doctor)
commands.command()(ingest)
commands.command()(health)
commands.add_typer(jobs)
commands.add_typer(spool)
