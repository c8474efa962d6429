"""How processes of ours log: one event a line, ids and counts, never content.

An event is a constant with its data as fields (`log.info("run_ended", extra={"key": …})`).  structlog
renders it, since it does both forms of the same record; the library itself logs by the standard
library and configures nothing.
"""

import logging
import sys
from typing import Any

import structlog
from celery import signals
from structlog.typing import EventDict, WrappedLogger

from workers.commands.celery_logging import LogFormat
from workers.redaction import Redactor
from workers.settings import WorkerSettings

_NOISE = ("args", "data", "name", "stack_info")
"""What Celery attaches to its records beside the message; arguments may be anybody's."""


def configure_celery_logging(level: str, form: LogFormat, settings: WorkerSettings) -> None:
    """Log in our form from the Celery program that this process is about to start, not in Celery's."""

    def configure(**_: Any) -> None:
        configure_logging(level, form, Redactor.from_settings(settings))

    # Celery configures logging itself unless somebody listens here.
    signals.setup_logging.connect(configure, weak=False)  # pyright: ignore[reportUnknownMemberType]  # Celery ships no types
    configure()


def configure_logging(level: str, form: LogFormat, redactor: Redactor) -> None:
    """Log to stderr: time, level, event and fields of each record, credentials taken out."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter(form, redactor))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # A line a message, before anything can know whether its doorbell is stale; a run's own line says
    # what became of it, and comes for those too that began without a message.
    logging.getLogger("celery.worker.strategy").setLevel(logging.WARNING)


def formatter(form: LogFormat, redactor: Redactor) -> logging.Formatter:
    """Renders any record of the standard library, its extra fields included."""
    render: Any = (
        structlog.processors.JSONRenderer(default=str)
        if form is LogFormat.JSON
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=0)
    )

    # Each value by itself: in a whole line, the name `key=` would take our own keys for credentials.
    def without_credentials(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
        return {
            name: redactor.text(value) if isinstance(value, str) else value
            for name, value in event.items()
            if name not in _NOISE
        }

    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.stdlib.ExtraAdder(),
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
        ],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            without_credentials,
            render,
        ],
    )
