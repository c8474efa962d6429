import asyncio
import io
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from workers.supervisor import Program, Supervisor

LOOP = "import time\nwhile True: time.sleep(1)"


def python(
    name: str, code: str, *, grace: float = 10.0, ready: Callable[[], object] | None = None
) -> Program:
    async def until_ready() -> None:
        while ready is not None and not ready():
            await asyncio.sleep(0.01)

    return Program(name, (sys.executable, "-uc", code), grace=grace, ready=until_ready)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


def marks(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def says(path: Path, word: str) -> str:
    return f"print({word!r}, file=open({str(path)!r}, 'a'), flush=True)\n"


async def test_programs_start_in_order_and_stop_in_reverse(tmp_path: Path) -> None:
    path = tmp_path / "marks"

    def lives(word: str) -> str:
        on_end = (
            f"signal.signal(signal.SIGTERM, lambda *_: ({says(path, f'{word} ends').strip()}, exit(0)))\n"
        )
        return "import signal\n" + on_end + says(path, f"{word} starts") + LOOP

    supervisor = Supervisor(
        [
            python("first", lives("first"), ready=lambda: "first starts" in marks(path)),
            python("second", lives("second"), ready=lambda: "second starts" in marks(path)),
        ],
        output=io.StringIO(),
    )

    await supervisor.run(supervisor.stop)

    assert marks(path) == ["first starts", "second starts", "second ends", "first ends"]


async def test_a_program_that_dies_starts_again(tmp_path: Path) -> None:
    path = tmp_path / "marks"
    code = (
        "import os\n"
        + says(path, "starts")
        + "os.kill(os.getpid(), 9) if len(open(%r).readlines()) < 3 else 0\n"
    )
    supervisor = Supervisor([python("fragile", code % str(path) + LOOP)], output=io.StringIO())

    running = asyncio.create_task(supervisor.run())
    await until(lambda: len(marks(path)) == 3)
    supervisor.stop()
    await running

    assert supervisor.restarts == {"fragile": 2}


async def test_what_programs_say_is_passed_on_under_their_names() -> None:
    output = io.StringIO()
    program = python("talker", "print('hello')\n" + LOOP, ready=lambda: "hello" in output.getvalue())
    supervisor = Supervisor([program], output=output)

    await supervisor.run(supervisor.stop)

    assert "talker | hello\n" in output.getvalue()


async def test_a_program_that_ignores_sigterm_is_killed_after_its_grace() -> None:
    output = io.StringIO()
    code = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('deaf')\n" + LOOP
    deaf = python("deaf", code, grace=0.2, ready=lambda: "| deaf" in output.getvalue())
    supervisor = Supervisor([deaf], output=output)

    await supervisor.run(supervisor.stop)

    assert "killed" in output.getvalue()


async def test_sigterm_stops_all_of_it() -> None:
    supervisor = Supervisor([python("one", LOOP)], output=io.StringIO())

    await asyncio.wait_for(supervisor.run(lambda: os.kill(os.getpid(), signal.SIGTERM)), timeout=20)


async def test_a_command_that_does_not_exist_is_an_error_and_stops_the_rest() -> None:
    supervisor = Supervisor(
        [python("one", LOOP), Program("two", ("/nonexistent/program",))], output=io.StringIO()
    )

    with pytest.raises(FileNotFoundError):
        await asyncio.wait_for(supervisor.run(), timeout=20)
