"""Workers and beats as real processes, for tests: started, frozen, ended and killed at will."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

START_SECONDS = 60.0
_READY = {"worker": " ready.", "beat": "beat: Starting..."}


class Program:
    """One `tinymemory` process with its output in a file."""

    def __init__(self, arguments: tuple[str, ...], env: Mapping[str, str], log: Path) -> None:
        self.log_path = log
        with log.open("wb") as output:
            # A group of its own, so that prefork's children can be killed with their parent.
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tinymemory", *arguments],
                env={**os.environ, **env, "PYTHONUNBUFFERED": "1"},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def log(self) -> str:
        """What it has printed."""
        return self.log_path.read_text(errors="replace")

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    def wait_for(self, text: str, seconds: float = START_SECONDS) -> None:
        """Return once it has printed a text.

        Raises:
            AssertionError: It ended before, or took too long.
        """
        deadline = time.monotonic() + seconds
        while text not in self.log:
            assert self.is_running, f"it ended with {self.process.returncode}:\n{self.log[-3000:]}"
            assert time.monotonic() < deadline, f"it never printed {text!r}:\n{self.log[-3000:]}"
            time.sleep(0.02)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def freeze(self) -> None:
        """Stop it where it is, all of its processes."""
        os.killpg(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        os.killpg(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL to it and its children."""
        if self.is_running:
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()

    def terminate(self, seconds: float = START_SECONDS) -> int:
        """SIGTERM, and its exit code once it has ended."""
        self.process.terminate()
        return self.process.wait(seconds)


class Programs:
    """The `tinymemory` processes of one test; leaving it kills those that are left."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self._folder = folder
        self.env = dict(env)
        self.started: list[Program] = []

    def start(self, *arguments: str, wait: bool = True, **env: str) -> Program:
        """Start `tinymemory` with these arguments; a worker or beat is ready when this returns."""
        log = self._folder / f"{arguments[0]}-{len(self.started)}.log"
        program = Program(arguments, {**self.env, **env}, log)
        self.started.append(program)
        if wait and (ready := _READY.get(arguments[0])) is not None:
            program.wait_for(ready)
        return program

    def start_together(self, *commands: tuple[str, ...]) -> list[Program]:
        """Start several at once; all are ready when this returns."""
        started = [self.start(*command, wait=False) for command in commands]
        for command, program in zip(commands, started, strict=True):
            program.wait_for(_READY[command[0]])
        return started

    def run(self, *arguments: str, **env: str) -> "subprocess.CompletedProcess[str]":
        """Run a `tinymemory` command to its end."""
        return self._run("tinymemory", *arguments, **env)

    def celery(
        self, *arguments: str, app: str = "workers.app", **env: str
    ) -> "subprocess.CompletedProcess[str]":
        """Run a `celery` command of our app to its end."""
        return self._run("celery", "-A", app, *arguments, **env)

    def _run(self, module: str, *arguments: str, **env: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", module, *arguments],
            env={**os.environ, **self.env, **env},
            capture_output=True,
            text=True,
            timeout=START_SECONDS,
            check=False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for program in self.started:
            if program.is_running:
                program.thaw()
                program.kill()
