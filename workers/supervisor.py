"""Several processes kept running as one: started in order, restarted when they die, stopped in reverse.

No process manager is used because those at hand (honcho, circus) either end everything when one
process dies or bring a daemon of their own; what is needed here is small.
"""

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import TextIO

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 15.0
STEADY_SECONDS = 30.0
"""A process that ran this long is restarted at once: whatever ails it is new."""

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)  # looked up here: after the fork nothing may be loaded


@dataclass(frozen=True, slots=True)
class Program:
    """One process to keep running."""

    name: str
    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """On top of the supervisor's own environment."""
    grace: float = 10.0
    """Seconds between SIGTERM and SIGKILL."""
    ready: Callable[[], Awaitable[None]] | None = None
    """Returns once the next program may start."""


class Supervisor:
    """Runs programs until `stop()`, or until one cannot be started at all."""

    def __init__(self, programs: Sequence[Program], *, output: TextIO = sys.stderr) -> None:
        self._programs = programs
        self._output = output
        self._width = max(len(program.name) for program in programs)
        self._keepers: list[_Keeper] = []
        self._stopping = asyncio.Event()
        self.restarts: dict[str, int] = {program.name: 0 for program in programs}

    async def run(self, on_ready: Callable[[], None] = lambda: None) -> None:
        """Start all in order, call `on_ready`, keep them running, stop them in reverse.

        SIGINT and SIGTERM stop it; a second one stops it at once.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.stop)
        try:
            for program in self._programs:
                keeper = _Keeper(program, self)
                self._keepers.append(keeper)
                await self._unless_stopped(keeper.start())
            if not self._stopping.is_set():
                on_ready()
            await self._stopping.wait()
        finally:
            for keeper in reversed(self._keepers):
                await keeper.end()

    def stop(self) -> None:
        """Begin to stop; `run` returns when all have ended."""
        if self._stopping.is_set():
            for keeper in self._keepers:
                keeper.kill()
        self._stopping.set()

    def say(self, name: str, line: str) -> None:
        """Write one line as the named program's."""
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._output.write(f"{name:<{self._width}} | {line}\n")
            self._output.flush()

    async def _unless_stopped(self, work: Awaitable[None]) -> None:
        started = asyncio.ensure_future(work)
        stopped = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait({started, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if started.done():
            await started
        else:
            started.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await started


class _Keeper:
    def __init__(self, program: Program, supervisor: Supervisor) -> None:
        self._program = program
        self._supervisor = supervisor
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self._spawn()
        self._task = asyncio.create_task(self._keep())
        if self._program.ready is not None:
            await self._program.ready()

    async def end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            await asyncio.wait_for(self._drain(process), self._program.grace)
        except TimeoutError:
            self._supervisor.say(self._program.name, f"did not end within {self._program.grace:g} s, killed")
            self.kill()
            await process.wait()

    def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    async def _spawn(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *self._program.command,
            env={**os.environ, **self._program.env},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            limit=1 << 20,
            # Of a group of its own: Ctrl-C in the terminal is the supervisor's to pass on, in order.
            start_new_session=True,
            preexec_fn=_end_with_parent if sys.platform == "linux" else None,
        )

    async def _keep(self) -> None:
        pause = FIRST_PAUSE
        while True:
            started = monotonic()
            assert self._process is not None
            await self._drain(self._process)
            code = self._process.returncode
            if monotonic() - started > STEADY_SECONDS:
                pause = FIRST_PAUSE
            self._supervisor.say(self._program.name, f"ended with code {code}, starts again in {pause:g} s")
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)
            self._supervisor.restarts[self._program.name] += 1
            await self._spawn()

    async def _drain(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            self._supervisor.say(self._program.name, line.decode(errors="replace").rstrip())
        await process.wait()


def _end_with_parent() -> None:
    # A supervisor that is killed takes its programs along, where the system can be asked to.
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
