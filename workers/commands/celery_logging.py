"""The options that every command which runs a Celery program has."""

from enum import StrEnum
from typing import Annotated

import typer


class LogFormat(StrEnum):
    """For people, or for machines."""

    TEXT = "text"
    JSON = "json"


LogLevelOption = Annotated[
    str, typer.Option("--log-level", "-l", help="DEBUG, INFO, WARNING, ERROR or CRITICAL.")
]
LogFormatOption = Annotated[
    LogFormat,
    typer.Option("--log-format", envvar="TINYMEMORY_LOG_FORMAT", help="For people, or an object a line."),
]
