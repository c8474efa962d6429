"""`tinymemory flower`: the page that shows what runs, behind a login unless only this machine sees it."""

import errno
import ipaddress
import os
import sys
from typing import Annotated

import typer

from tinymemory.errors import ConfigError

MAX_TASKS = 10_000
"""Rows Flower keeps; its own default of 100,000 is some 200 MB."""
COLUMNS = "name,uuid,state,args,result,started,runtime,worker"
"""What the tasks page shows: the scope is in the arguments, the outcome in the result."""
_CANNOT_LISTEN = (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES)
_AUTHENTICATION = ("FLOWER_BASIC_AUTH", "FLOWER_AUTH")

AddressOption = Annotated[str | None, typer.Option("--address", help="Where to listen (127.0.0.1).")]
PortOption = Annotated[int | None, typer.Option("--port", min=0, max=65535, help="Where to listen (5555).")]
BasicAuthOption = Annotated[
    str | None, typer.Option("--basic-auth", help="user:password, several split by commas.")
]


def flower(
    address: AddressOption = None, port: PortOption = None, basic_auth: BasicAuthOption = None
) -> None:
    """Show the workers and their jobs on a web page; `FLOWER_…` variables are honoured."""
    from workers.app import app  # Celery takes half a second, which other commands need not wait
    from workers.flower import bound_events, guard_metrics

    given = {"FLOWER_ADDRESS": address, "FLOWER_PORT": port, "FLOWER_BASIC_AUTH": basic_auth}
    # Not on the command line, where `ps` would show a password to everyone.
    environ = {**os.environ, **{name: str(value) for name, value in given.items() if value is not None}}
    environ.setdefault("FLOWER_ADDRESS", "127.0.0.1")
    environ.setdefault("FLOWER_MAX_TASKS", str(MAX_TASKS))
    environ.setdefault("FLOWER_TASKS_COLUMNS", COLUMNS)
    ensure_guarded(environ["FLOWER_ADDRESS"], has_login=any(environ.get(name) for name in _AUTHENTICATION))
    os.environ.update(environ)
    guard_metrics()
    bound_events()
    sys.argv = ["flower"]
    try:
        app.start(argv=["flower"])  # pyright: ignore[reportUnknownMemberType]  # Celery ships no types
    except OSError as error:
        if error.errno not in _CANNOT_LISTEN:
            raise
        place = f"{environ['FLOWER_ADDRESS']}:{environ.get('FLOWER_PORT', '5555')}"
        raise ConfigError(
            f"flower cannot listen on {place}: {os.strerror(error.errno)}; choose another --port"
        ) from error


def ensure_guarded(address: str, *, has_login: bool) -> None:
    """Refuse to show the page, its API and its buttons to a network without a login.

    Raises:
        ConfigError: The address is beyond loopback, and neither basic nor OAuth authentication is set.
    """
    if not has_login and not _is_loopback(address):
        raise ConfigError(
            f"flower would be open to everyone who reaches {address or 'this machine'}: give it"
            " --basic-auth user:password (or FLOWER_BASIC_AUTH, or FLOWER_AUTH with OAuth), or leave it"
            " on 127.0.0.1"
        )


def _is_loopback(address: str) -> bool:
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
