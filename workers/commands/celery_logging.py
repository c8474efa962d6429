"""The option that every command which runs a Celery program has."""

from typing import Annotated

import typer

LogLevelOption = Annotated[
    str, typer.Option("--log-level", "-l", help="DEBUG, INFO, WARNING, ERROR or CRITICAL.")
]
