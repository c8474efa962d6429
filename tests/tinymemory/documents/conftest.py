import asyncio
from collections.abc import Iterator

import pytest

from tinymemory.documents import Converters


@pytest.fixture(scope="session")
def converters() -> Iterator[Converters]:
    """One process for all tests: starting one takes a second."""
    converters = Converters(processes=1)
    yield converters
    asyncio.run(converters.aclose())
