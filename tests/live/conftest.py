"""Real workers on a real Redis: one pair shared by the tests that leave it well, others of their own."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import Live

from workers.testing import RedisServer

_SHARED = {"max_attempts": 3, "build_max_wait": 2.0, "probe_cap": 1.0}


@pytest.fixture(scope="session")
def live_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A Redis that no test may stop, for the tests that share a worker."""
    with RedisServer(tmp_path_factory.mktemp("live-redis")) as server:
        yield server


@pytest.fixture
async def own_redis(tmp_path: Path) -> AsyncIterator[RedisServer]:
    """A Redis of the test's own, to be stopped and killed."""
    with RedisServer(tmp_path / "redis") as server:
        yield server


@pytest.fixture
async def live(own_redis: RedisServer, tmp_path: Path) -> AsyncIterator[Callable[..., Live]]:
    """Makes job layers on the test's own Redis, with the settings given; whatever they start ends."""
    made: list[Live] = []

    def make(**settings: Any) -> Live:
        folder = tmp_path / f"live{len(made)}"
        folder.mkdir()
        made.append(Live(folder, own_redis.url, **settings))
        return made[-1]

    yield make
    for one in made:
        await one.aclose()


@pytest.fixture(scope="session")
def shared_folder(live_redis: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of the job layer whose worker and beat are shared; both run."""
    folder = tmp_path_factory.mktemp("shared")
    layer = Live(folder, live_redis.url, **_SHARED)
    with layer.programs as programs:
        programs.start_together(("worker",), ("beat",))
        layer.redis.close()
        yield folder


@pytest.fixture
async def shared(shared_folder: Path, live_redis: RedisServer) -> AsyncIterator[Live]:
    """The host's side of it; tests keep to roots of their own, and leave the processes alone."""
    layer = Live(shared_folder, live_redis.url, **_SHARED)
    yield layer
    await layer.aclose()
