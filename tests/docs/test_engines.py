"""The page on engines: its tests run, its links lead somewhere, its table of errors is the workers' own."""

import ast
import inspect
import re
from pathlib import Path
from typing import Any

from tinymemory import errors
from tinymemory.errors import TinyMemoryError

PAGE = Path(__file__).parents[2] / "docs" / "engines.md"
TEXT = PAGE.read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


async def test_the_test_of_a_host_passes() -> None:
    (block,) = (block for block in BLOCKS if "cortex_server" in block)
    names: dict[str, Any] = {}
    exec(compile(block, PAGE.name, "exec"), names)

    await names["test_beliefs_come_after_the_extraction"]()


def test_all_its_python_compiles() -> None:
    for block in BLOCKS:
        compile(block, PAGE.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_the_errors_it_names_are_the_librarys() -> None:
    named = set(re.findall(r"`(\w+Error)", TEXT))

    assert named <= {name for name, _ in inspect.getmembers(errors, inspect.isclass)}
    assert all(issubclass(getattr(errors, name), TinyMemoryError) for name in named)


def test_its_links_lead_somewhere() -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", TEXT):
        if not link.startswith("http"):
            assert (PAGE.parent / link).exists(), link
