"""A RabbitMQ node for tests: its own name, ports, folder and cookie, so that no other node notices."""

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from workers.testing import free_port

_SCRIPTS = (Path("/usr/lib/rabbitmq/bin/rabbitmq-server"), Path("/usr/local/sbin/rabbitmq-server"))
_START_SECONDS = 90.0


def rabbitmq_executable() -> str | None:
    """The server's own script: the one on PATH of Debian becomes another user first."""
    for script in _SCRIPTS:
        if script.is_file():
            return str(script)
    return shutil.which("rabbitmq-server")


class RabbitServer:
    """A node on free loopback ports, with its files in `folder`.  A context manager."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._distribution_port = free_port()
        self._epmd_port = free_port()
        self._log = folder / "server.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._mapper: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The default virtual host, as guest."""
        return f"amqp://guest:guest@127.0.0.1:{self.port}//"

    def start(self) -> Self:
        """Start the node and wait until it takes connections."""
        executable = rabbitmq_executable()
        assert executable is not None, "no rabbitmq-server: apt-get install rabbitmq-server"
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "plugins").write_text("[].\n")
        env = {
            **os.environ,
            "HOME": str(self.folder),
            "ERL_EPMD_PORT": str(self._epmd_port),
            "RABBITMQ_NODENAME": f"test{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self._distribution_port),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "data"),
            "RABBITMQ_LOG_BASE": str(self.folder / "log"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
            "RABBITMQ_CONFIG_FILE": str(self.folder / "none"),
            "RABBITMQ_PID_FILE": str(self.folder / "pid"),
            # One scheduler: the machine has other things to do.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +sbwt none",
        }
        # Ours, in the foreground: the node would start one that outlives it.
        mapper = ["epmd", "-port", str(self._epmd_port), "-address", "127.0.0.1"]
        self._mapper = subprocess.Popen(mapper, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                [executable], env=env, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
        self._wait_until_it_listens()
        return self

    def kill(self) -> None:
        """SIGKILL to the node and to its port mapper."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
        if self._mapper is not None:
            self._mapper.kill()
            self._mapper.wait()
            self._mapper = None

    def _wait_until_it_listens(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1.0):
                    return
            except OSError:
                log = self._log.read_text(errors="replace")[-2000:]
                assert self._process is not None
                assert self._process.poll() is None, f"the node ended: {log}"
                assert time.monotonic() < deadline, f"the node did not start: {log}"
                time.sleep(0.1)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
