"""Being a good guest: imports, a host's own Celery, forks, and hosts that end at any moment."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from redis import Redis

from tinymemory.jobs import BuildBeliefs
from tinymemory.namespace import Reach
from tinymemory.query import ConsolidateRequest
from workers import EnqueueState, JobState, MemoryJobs, WorkerSettings, job_key
from workers.ledger import SyncLedger
from workers.testing import RedisServer

ROOT = "team:acme"
MakeSettings = Callable[..., WorkerSettings]


def build(agent: str = "a") -> BuildBeliefs:
    return BuildBeliefs(request=ConsolidateRequest(reach=Reach.exact(f"{ROOT}/agent:{agent}")))


def state_of(ledger: SyncLedger, agent: str) -> JobState:
    return ledger.status(job_key(ROOT, "default", build(agent))).state


def python(script: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(script), *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


_HOST = f"""
import asyncio, os, sys, threading
from concurrent.futures import ThreadPoolExecutor
from tinymemory.jobs import BuildBeliefs
from tinymemory.namespace import Reach
from tinymemory.query import ConsolidateRequest
from workers import MemoryJobs

def build(agent):
    reach = Reach.exact("{ROOT}/agent:" + agent)
    return BuildBeliefs(request=ConsolidateRequest(reach=reach))
"""


def test_importing_opens_nothing_starts_nothing_and_configures_nothing() -> None:
    result = python("""
        import logging, socket, sys, threading

        def refuse(*_):
            raise AssertionError("a connection")

        socket.socket.connect = refuse
        before = set(threading.enumerate())
        handlers = list(logging.root.handlers)
        import workers

        jobs = workers.MemoryJobs.from_env()
        assert set(threading.enumerate()) == before
        assert logging.root.handlers == handlers and logging.root.level == logging.WARNING
        loaded = {name.partition(".")[0] for name in sys.modules}
        assert not loaded & {"celery", "kombu", "flower", "redbeat", "typer", "rich"}, loaded
    """)

    assert result.returncode == 0, result.stderr


def test_r16_a_host_with_its_own_celery_reaches_our_ledger_from_every_thread(
    redis_server: RedisServer, sync_redis: Redis, sync_ledger: SyncLedger
) -> None:
    result = python(
        _HOST
        + """
import logging
from celery import Celery, current_app

host = Celery("host", broker="memory://elsewhere")
host.set_default()
host.conf.task_default_queue = "hosts-own"
before = (logging.root.level, list(logging.root.handlers))

import workers.app  # what a host that also runs workers would have loaded

jobs = MemoryJobs.from_env()

async def awaited(agent):
    async with jobs:
        await jobs.enqueue(build(agent), root="team:acme")

def enqueue(agent):
    jobs.enqueue_sync(build(agent), root="team:acme")

enqueue("main")
thread = threading.Thread(target=enqueue, args=("thread",))
thread.start(); thread.join()
with ThreadPoolExecutor() as pool:
    pool.submit(enqueue, "executor").result()
    pool.submit(asyncio.run, awaited("loop-in-executor")).result()
asyncio.run(awaited("loop"))

assert current_app._get_current_object() is host
assert (logging.root.level, list(logging.root.handlers)) == before
assert host.conf.broker_url == "memory://elsewhere"
assert host.conf.task_default_queue == "hosts-own"
""",
        TINYMEMORY_REDIS_URL=redis_server.url,
    )

    assert result.returncode == 0, result.stderr
    agents = ("main", "thread", "executor", "loop-in-executor", "loop")
    assert [state_of(sync_ledger, agent) for agent in agents] == [JobState.WAITING] * 5
    [doorbell, *_] = sync_ledger.claim("tinymemory.beliefs", 5).doorbells or [None]
    assert doorbell is None  # not yet due, and in our queue alone
    queues: set[str] = sync_redis.smembers("{tinymemory}:queues")  # pyright: ignore[reportAssignmentType]  # redis-py types both kinds of client at once
    assert queues == {"tinymemory.beliefs"}


def test_r44_a_host_that_ends_at_once_leaves_its_job_in_the_ledger(
    redis_server: RedisServer, sync_ledger: SyncLedger
) -> None:
    codes = end_in_every_way(TINYMEMORY_REDIS_URL=redis_server.url)

    assert codes == EXPECTED_CODES
    assert [state_of(sync_ledger, f"{how}-{end}") for how, end in WAYS] == [JobState.WAITING] * len(WAYS)


def test_r44_a_host_that_ends_at_once_without_redis_leaves_its_job_in_the_spool(
    make_settings: MakeSettings, sync_ledger: SyncLedger, tmp_path: Path
) -> None:
    codes = end_in_every_way(TINYMEMORY_REDIS_URL="redis://127.0.0.1:1/0", TINYMEMORY_SPOOL_DIR=str(tmp_path))

    with MemoryJobs(make_settings(spool_dir=tmp_path)) as jobs:
        jobs.enqueue_sync(build("next"), root=ROOT)

    assert codes == EXPECTED_CODES
    assert [state_of(sync_ledger, f"{how}-{end}") for how, end in WAYS] == [JobState.WAITING] * len(WAYS)


WAYS = [(how, end) for how in ("sync", "async") for end in ("return", "SIGTERM", "SIGKILL")]
EXPECTED_CODES = [0, -signal.SIGTERM, -signal.SIGKILL] * 2


def end_in_every_way(**environment: str) -> list[int]:
    """Hosts that enqueue and end at once, each in its way; their exit codes."""
    hosts = [
        subprocess.Popen([sys.executable, "-c", _ENDING, how, end], env=os.environ | environment)
        for how, end in WAYS
    ]
    return [host.wait(timeout=60) for host in hosts]


_ENDING = (
    _HOST
    + """
import signal

jobs = MemoryJobs.from_env()

async def awaited():
    await jobs.enqueue(build("-".join(sys.argv[1:])), root="team:acme")
    end()

def end():
    if sys.argv[2] != "return":
        os.kill(os.getpid(), getattr(signal, sys.argv[2]))
    os._exit(0) if sys.argv[1] == "async" else None

if sys.argv[1] == "async":
    asyncio.run(awaited())
else:
    jobs.enqueue_sync(build("-".join(sys.argv[1:])), root="team:acme")
    end()
"""
)


# -- forks


def sockets() -> set[str]:
    """The sockets this process holds, by what they are and not by their numbers."""
    found: set[str] = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
        if target.startswith("socket:"):
            found.add(target)
    return found


def in_a_child(check: Callable[[], None]) -> int:
    """Fork, run the check in the child, and return its exit code."""
    if pid := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    code = 1
    try:
        check()
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="reads /proc")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_opens_connections_of_its_own_and_holds_none_of_its_parents(
    jobs: MemoryJobs, sync_redis: Redis
) -> None:
    before = sockets()
    jobs.enqueue_sync(build("parent"), root=ROOT)
    ours = sockets() - before
    assert ours

    def check() -> None:
        assert jobs.enqueue_sync(build("parent"), root=ROOT).state is EnqueueState.MERGED
        held = sockets() - before
        assert len(held) == 1
        assert not held & ours

    codes = [in_a_child(check) for _ in range(3)]

    assert codes == [0, 0, 0]
    assert jobs.enqueue_sync(build("parent"), root=ROOT).state is EnqueueState.MERGED
    assert sync_redis.ping()  # pyright: ignore[reportUnknownMemberType]  # redis-py leaves **kwargs untyped


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="reads /proc")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
async def test_a_child_forked_from_a_loop_has_a_loop_of_its_own_and_leaves_the_parents_alone(
    jobs: MemoryJobs,
) -> None:
    async with jobs:
        before = sockets()
        await jobs.enqueue(build("parent"), root=ROOT)
        ours = sockets() - before
        assert ours

        def check() -> None:
            # What a forked child of an event loop has to do before it may start another.
            asyncio.events._set_running_loop(None)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # no public way, and os.fork in a loop is rare
            asyncio.set_event_loop(None)

            async def enqueue() -> None:
                async with jobs:
                    handle = await jobs.enqueue(build("parent"), root=ROOT)
                    assert handle.state is EnqueueState.MERGED
                    assert not sockets() & ours

            asyncio.run(enqueue())
            assert jobs.enqueue_sync(build("parent"), root=ROOT).state is EnqueueState.MERGED

        codes = [in_a_child(check) for _ in range(3)]
        after = await jobs.enqueue(build("parent"), root=ROOT)

    assert codes == [0, 0, 0]
    assert after.state is EnqueueState.MERGED


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_forked_during_an_outage_finds_its_own_way(
    make_settings: MakeSettings, tmp_path: Path, redis_server: RedisServer
) -> None:
    settings = make_settings(spool_dir=tmp_path)
    with MemoryJobs(settings) as jobs:
        os.kill(redis_server.pid, signal.SIGSTOP)
        try:
            assert jobs.enqueue_sync(build("parent"), root=ROOT).state is EnqueueState.SPOOLED
        finally:
            os.kill(redis_server.pid, signal.SIGCONT)

        def check() -> None:
            # The parent's thread that watches for Redis does not exist here.
            assert jobs.enqueue_sync(build("child"), root=ROOT).state is EnqueueState.NEW
            assert jobs.status_sync(job_key(ROOT, "default", build("parent"))).state is JobState.WAITING

        code = in_a_child(check)

    assert code == 0


def test_a_hosts_own_broker_in_the_environment_is_not_ours() -> None:
    result = python(
        """
        from scheduler.app import app

        ours = "redis://:pa55word@127.0.0.1:1/3"
        links = (app.connection_for_read(), app.connection_for_write(), app.connection())
        assert {link.as_uri(include_password=True) for link in links} == {ours}
        with app.producer_or_acquire() as producer:
            assert producer.connection.as_uri(include_password=True) == ours
        assert type(app.backend).__name__ == "DisabledBackend"
        """,
        TINYMEMORY_REDIS_URL="redis://:pa55word@127.0.0.1:1/3",
        CELERY_BROKER_URL="redis://hosts-own/9",
        CELERY_BROKER_READ_URL="redis://hosts-own/9",
        CELERY_BROKER_WRITE_URL="redis://hosts-own/9",
        CELERY_RESULT_BACKEND="redis://hosts-own/8",
    )

    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    "url",
    [
        "redis://:pa55word@127.0.0.1:1/3",
        "sentinel://:pa55word@a:1;b:2/3?master=m",
        "amqp://user:pa55word@host//",
    ],
)
def test_our_celerys_configuration_holds_no_password(url: str) -> None:
    result = python(
        """
        from scheduler.app import app

        assert "***" in app.conf.broker_url, app.conf.broker_url
        shown = f"{dict(app.conf)} {app.conf.humanize()} {app.conf.table()}"
        assert "beat_schedule" in shown
        assert "pa55word" not in shown
        """,
        TINYMEMORY_BROKER_URL=url,
    )

    assert result.returncode == 0, result.stderr
