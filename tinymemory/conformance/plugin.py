"""The conformance suite for pytest, one test a check; an engine author needs three lines.

```python
pytest_plugins = ["tinymemory.conformance.plugin"]

def test_my_engine(conformance):
    conformance(MyEngine)
```

`MyEngine` is anything that makes a fresh engine when called, a coroutine function too; it is called
within the event loop the check runs in, and the engine is closed behind it.  The test is an ordinary
function: no asyncio plugin is needed.

PYTEST_DONT_REWRITE: nothing is asserted here, and the module may be imported before it is a plugin.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable

import pytest

from tinymemory.conformance.suite import CHECKS, run_check
from tinymemory.engine import MemoryEngine

MakeEngine = Callable[[], MemoryEngine | Awaitable[MemoryEngine]]


@pytest.fixture(params=list(CHECKS))
def conformance(request: pytest.FixtureRequest) -> Callable[[MakeEngine], None]:
    """Runs one check over the engine its argument makes; parametrized over all checks."""
    name: str = request.param
    return lambda make: asyncio.run(_run(make, name))


async def _run(make: MakeEngine, name: str) -> None:
    made = make()
    engine = await made if inspect.isawaitable(made) else made
    async with engine:
        await run_check(engine, name)
