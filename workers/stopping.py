"""How the processes of a worker hear that it stops.

The signal reaches the main process alone, and prefork's children must know too.  Each holds the
reading end of a pipe made before they were forked; closing the writing end reaches all of them,
whatever they do, and so does the main process's death.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable


class StopPipe:
    """One word to every process forked from this one, said once."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        self._owner = os.getpid()

    def say(self) -> None:
        """Say it; safe in a signal handler, and more than once."""
        if os.getpid() == self._owner:
            self._close_writing()

    def forked(self) -> None:
        """To be called in a child: while it held a writing end, nobody would hear anything."""
        if os.getpid() != self._owner:
            self._close_writing()

    def on_said(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
        """Have `callback` called on the loop, once; at its next turn when it was said already."""

        def heard() -> None:
            loop.remove_reader(self._read)
            callback()

        loop.add_reader(self._read, heard)

    def _close_writing(self) -> None:
        write, self._write = self._write, -1
        if write >= 0:
            with contextlib.suppress(OSError):
                os.close(write)


class StopPipes:
    """The two words of a worker's end: finish what runs, and drop it now."""

    def __init__(self) -> None:
        self.soon = StopPipe()
        self.now = StopPipe()

    def forked(self) -> None:
        """To be called in a child."""
        self.soon.forked()
        self.now.forked()
