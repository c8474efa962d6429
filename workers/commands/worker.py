"""`tinymemory worker`: take doorbells and run jobs."""

from typing import Annotated, Any

import typer

from workers.commands.celery_logging import LogFormat, LogFormatOption, LogLevelOption
from workers.settings import WorkerSettings

PoolOption = Annotated[str, typer.Option("--pool", "-P", help="threads, prefork or solo.")]
ConcurrencyOption = Annotated[
    int | None, typer.Option("--concurrency", "-c", min=1, help="Jobs at a time (8 threads unless told).")
]
QueuesOption = Annotated[
    str | None, typer.Option("--queues", "-Q", help="Only these, split by commas; every queue unless told.")
]
HostnameOption = Annotated[
    str | None, typer.Option("--hostname", "-n", help="The worker's name, such as worker1@%h.")
]


def worker(
    pool: PoolOption = "threads",
    concurrency: ConcurrencyOption = None,
    queues: QueuesOption = None,
    hostname: HostnameOption = None,
    log_level: LogLevelOption = "INFO",
    log_format: LogFormatOption = LogFormat.TEXT,
) -> None:
    """Run jobs until SIGTERM: what runs then may end within `shutdown_grace`, the rest is handed back."""
    from celery.utils import nodenames

    from workers.app import app  # Celery takes half a second, which other commands need not wait
    from workers.logs import configure_celery_logging

    configure_celery_logging(log_level, log_format, WorkerSettings.load())
    untyped: Any = app
    names: Any = nodenames
    started = untyped.Worker(
        pool=pool,
        concurrency=concurrency,
        queues=queues,
        hostname=names.host_format(names.default_nodename(hostname)),
        loglevel=log_level,
        quiet=log_format is LogFormat.JSON,  # no banner among the objects
    )
    started.start()
    raise typer.Exit(int(started.exitcode or 0))
