"""A `tinymemory` command in a real terminal: what a person would see of it, and how it ends."""

import os
import re
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import pexpect
import pyte

SECONDS = 60.0
_ESCAPE = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
_COLOUR = re.compile(rb"\x1b\[[0-9;]*3[0-7]m")


class Terminal:
    """One command on a pseudo-terminal of a given size; a context manager, which ends what still runs."""

    def __init__(
        self, *arguments: str, columns: int = 100, lines: int = 40, env: Mapping[str, str] | None = None
    ) -> None:
        inherited = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        self._screen: Any = pyte.Screen(columns, lines)
        self._stream: Any = pyte.ByteStream(self._screen)
        self._child: Any = pexpect.spawn(
            sys.executable,
            ["-m", "tinymemory", *arguments],
            dimensions=(lines, columns),
            env={**inherited, "TERM": "xterm-256color", **(env or {})},
            timeout=SECONDS,
        )
        self.raw = b""

    def wait_for(self, text: str) -> None:
        """Return once the command has printed it."""
        while text.encode() not in _ESCAPE.sub(b"", self.raw):
            self._read()

    def answer(self, line: str) -> None:
        """Type a line."""
        self._child.sendline(line)

    def press(self, key: str) -> None:
        """Ctrl and a letter."""
        self._child.sendcontrol(key)

    def interrupt(self) -> int:
        """Press Ctrl-C at a question, and its exit code.

        Again when nothing comes of it: Python looks at no signal that arrives just as it begins to
        read, until the next one.
        """
        while self._child.isalive():
            self.press("c")
            self._child.expect([pexpect.EOF, pexpect.TIMEOUT], timeout=2.0)
            self._take(self._child.before)
        return self.end()

    def end(self) -> int:
        """Its exit code, once it has ended."""
        while True:
            try:
                self._read()
            except pexpect.EOF:
                break
        self._child.close()
        assert self._child.signalstatus is None, f"ended by signal {self._child.signalstatus}"
        return int(self._child.exitstatus)

    @property
    def screen(self) -> str:
        """What can be read on it now."""
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    @property
    def text(self) -> str:
        """All that was printed, without escapes."""
        return _ESCAPE.sub(b"", self.raw).decode(errors="replace").replace("\r\n", "\n")

    @property
    def has_escapes(self) -> bool:
        """Whether it moved the cursor or changed a style."""
        return bool(_ESCAPE.search(self.raw))

    @property
    def has_colours(self) -> bool:
        """Whether any text was in a colour."""
        return bool(_COLOUR.search(self.raw))

    def _read(self) -> None:
        try:
            data: bytes = self._child.read_nonblocking(65536, SECONDS)
        except pexpect.TIMEOUT as error:
            raise AssertionError(f"nothing more came:\n{self.screen}") from error
        self._take(data)

    def _take(self, data: bytes) -> None:
        self.raw += data
        self._stream.feed(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.close(force=True)
