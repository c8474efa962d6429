"""The example of docs/engines.md runs as it stands."""

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[3] / "docs" / "engines.md"


async def test_the_example_of_the_page_passes() -> None:
    [example] = [
        block
        for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
        if "async def test_" in block
    ]
    names: dict[str, Any] = {}
    exec(compile(example, str(PAGE), "exec"), names)

    await names["test_beliefs_come_after_the_extraction"]()
