"""Other job queues, each reduced to one thing: hand over one no-op job, or one identical to an earlier one.

Every peer is optional: what is not installed is named and left out.
"""

# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false, reportUnknownLambdaType=false
# Each of them is optional, and most ship no types.

import importlib.metadata
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

Send = Callable[[str], object]
AsyncSend = Callable[[str], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Peer:
    """One queue to compare with."""

    name: str
    package: str
    dedups: bool
    """Whether an identical job that waits already is not queued again."""
    sync: Callable[[str], Any] | None = None
    """A context manager over the Redis URL that yields the sending function."""
    awaited: Callable[[str], AbstractAsyncContextManager[AsyncSend]] | None = None

    @property
    def version(self) -> str | None:
        """The installed version; None when it is missing."""
        try:
            return importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError:
            return None


def celery_app(url: str) -> Any:
    """A plain Celery app whose messages go to `url`; results are ignored, as ours are."""
    from celery import Celery

    app = Celery("peer", broker=url, set_as_current=False)
    app.conf.update(task_ignore_result=True, task_default_queue="peer", broker_pool_limit=1)
    return app


@contextmanager
def _celery(url: str) -> Generator[Send]:
    app = celery_app(url)
    task = app.task(name="peer.noop")(noop)
    yield lambda key: task.apply_async((key,))
    app.close()


@contextmanager
def _celery_singleton(url: str) -> Generator[Send]:
    from celery_singleton import Singleton

    app = celery_app(url)
    app.conf.singleton_backend_url = url
    task = app.task(name="peer.noop", base=Singleton)(noop)
    yield lambda key: task.apply_async((key,))
    app.close()


@contextmanager
def _celery_once(url: str) -> Generator[Send]:
    from celery_once import QueueOnce

    app = celery_app(url)
    settings = {"url": url, "default_timeout": 3600}
    app.conf.ONCE = {"backend": "celery_once.backends.Redis", "settings": settings}
    task = app.task(name="peer.noop", base=QueueOnce, once={"graceful": True})(noop)
    yield lambda key: task.apply_async((key,))
    app.close()


@contextmanager
def _dramatiq(url: str) -> Generator[Send]:
    import dramatiq
    from dramatiq.brokers.redis import RedisBroker

    broker = RedisBroker(url=url)
    make: Any = dramatiq.actor
    actor = make(noop, broker=broker, actor_name="noop")
    yield actor.send
    broker.close()


@contextmanager
def _huey(url: str) -> Generator[Send]:
    from huey import RedisHuey

    queue = RedisHuey("peer", url=url, results=False)
    yield queue.task(name="noop")(noop)


@asynccontextmanager
async def _saq(url: str) -> AsyncGenerator[AsyncSend]:
    from saq import Queue

    queue = Queue.from_url(url)
    await queue.connect()
    yield lambda key: queue.enqueue("noop", key=key, name_=key)
    await queue.disconnect()


@asynccontextmanager
async def _docket(url: str) -> AsyncGenerator[AsyncSend]:
    from docket import Docket

    async def noop(key: str) -> None: ...

    async with Docket(name="peer", url=url) as docket:
        yield lambda key: docket.add(noop, key=key)(key)


def noop(key: str) -> None:
    """Do nothing."""


PEERS = (
    Peer("celery", "celery", dedups=False, sync=_celery),
    Peer("celery-singleton", "celery-singleton", dedups=True, sync=_celery_singleton),
    Peer("celery-once", "celery-once", dedups=True, sync=_celery_once),
    Peer("saq", "saq", dedups=True, awaited=_saq),
    Peer("docket", "pydocket", dedups=True, awaited=_docket),
    Peer("dramatiq", "dramatiq", dedups=False, sync=_dramatiq),
    Peer("huey", "huey", dedups=False, sync=_huey),
)
