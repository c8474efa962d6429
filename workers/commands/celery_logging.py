"""The options that every command which runs a Celery program has."""

import logging
from enum import StrEnum
from typing import Annotated

import typer


class LogFormat(StrEnum):
    """For people, or for machines."""

    TEXT = "text"
    JSON = "json"


def log_level(text: str) -> str:
    """The name of a level, as `logging` and Celery write it; refuses another as a usage error."""
    if text.upper() not in logging.getLevelNamesMapping():
        raise typer.BadParameter(f"{text!r} is none of DEBUG, INFO, WARNING, ERROR and CRITICAL.")
    return text.upper()


LogLevelOption = Annotated[
    str,
    typer.Option("--log-level", "-l", callback=log_level, help="DEBUG, INFO, WARNING, ERROR or CRITICAL."),
]
LogFormatOption = Annotated[
    LogFormat,
    typer.Option("--log-format", envvar="TINYMEMORY_LOG_FORMAT", help="For people, or an object a line."),
]
