"""The scheduler's commands: `tinymemory beat`, and `tinymemory sweep` for a cron."""

import asyncio

import typer
from redis.exceptions import RedisError

from tinymemory.exit import ExitCode
from workers.commands.celery_logging import LogFormat, LogFormatOption, LogLevelOption
from workers.round import SweepReport
from workers.settings import WorkerSettings

commands = typer.Typer()


@commands.command()
def beat(log_level: LogLevelOption = "INFO", log_format: LogFormatOption = LogFormat.TEXT) -> None:
    """Ask for sweeps, reaps, probes and the nightly build, until SIGTERM; several at once are safe."""
    from scheduler.app import app  # Celery takes half a second, which other commands need not wait
    from scheduler.ending import EndingBeat
    from workers.logs import configure_celery_logging

    configure_celery_logging(log_level, log_format, WorkerSettings.load())
    EndingBeat(app=app, loglevel=log_level, quiet=log_format is LogFormat.JSON).run()


@commands.command()
def sweep() -> None:
    """Do one round without a beat: reap, probe, reconcile, claim.  Prints one JSON line.

    Exits 0 when all of it was done, 1 when something failed, 75 when Redis or the broker was away.
    """
    report, code = asyncio.run(_sweep(WorkerSettings.load()))
    typer.echo(report.model_dump_json())
    raise typer.Exit(code)


async def _sweep(settings: WorkerSettings) -> tuple[SweepReport, ExitCode]:
    from workers.solo_round import open_round  # as above

    try:
        async with open_round(settings) as round_:
            report = await round_.sweep()
    except RedisError as error:
        away = SweepReport(errors=[f"the ledger's Redis does not answer ({type(error).__name__})"])
        return away, ExitCode.UNREACHABLE
    if not report.broker_answers:
        return report, ExitCode.UNREACHABLE
    return report, ExitCode.FAILED if report.errors else ExitCode.OK
