"""The three lines of the plugin's own docstring are all an engine's author writes."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tinymemory.conformance import CHECKS, plugin

ENGINES = {
    "sound": "from tinymemory import ReferenceEngine as MyEngine",
    "made by a coroutine": (
        "from tinymemory import ReferenceEngine\n\nasync def MyEngine():\n    return ReferenceEngine()"
    ),
    "broken": (
        "from tinymemory import EngineHealth, ReferenceEngine\n\n"
        "class MyEngine(ReferenceEngine):\n"
        "    async def health(self):\n"
        "        return EngineHealth.down('the key was rejected')"
    ),
}


def run(folder: Path, engine: str) -> str:
    """What pytest says of the docstring's lines, without any asyncio plugin."""
    lines = re.search(r"```python\n(.*?)```", plugin.__doc__ or "", re.DOTALL)
    assert lines is not None
    assert len([line for line in lines[1].splitlines() if line]) == 3
    (folder / "test_mine.py").write_text(f"{ENGINES[engine]}\n\n{lines[1]}", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "no:asyncio", "-q", "test_mine.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout


@pytest.mark.parametrize("engine", ["sound", "made by a coroutine"])
def test_each_check_is_a_test_of_its_own(tmp_path: Path, engine: str) -> None:
    assert f"{len(CHECKS)} passed" in run(tmp_path, engine)


def test_a_broken_engine_fails_the_test_of_its_check_alone(tmp_path: Path) -> None:
    output = run(tmp_path, "broken")

    assert f"1 failed, {len(CHECKS) - 1} passed" in output
    assert "test_my_engine[health]" in output
    assert "health: the engine says it is down: the key was rejected" in output
