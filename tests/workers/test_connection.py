"""Every form of `redis_url` the settings accept, against real servers."""

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kombu.connection import Connection
from redis import Redis

from tinymemory.errors import ConfigError, UnavailableError
from tinymemory.jobs import BuildBeliefs
from tinymemory.namespace import Reach
from tinymemory.query import ConsolidateRequest
from workers import EnqueueState, MemoryJobs, WorkerSettings
from workers.broker import kombu_broker
from workers.connection import async_redis, sync_redis
from workers.embedded import free_port, redis_executable
from workers.testing import RedisServer

PASSWORD = "p@ss/w0rd:é"
QUOTED = "p%40ss%2Fw0rd%3A%C3%A9"
BUILD = BuildBeliefs(request=ConsolidateRequest(reach=Reach.exact("team:acme/agent:a")))


async def enqueue_both_ways(url: str) -> None:
    async with MemoryJobs(WorkerSettings.load(redis_url=url)) as jobs:
        awaited = await jobs.enqueue(BUILD, root="team:acme")
        plain = jobs.enqueue_sync(BUILD, root="team:acme")
    assert [awaited.state, plain.state] == [EnqueueState.NEW, EnqueueState.MERGED]
    await asyncio.to_thread(carry_a_message, WorkerSettings.load(redis_url=url))


def carry_a_message(settings: WorkerSettings) -> None:
    """The same address is the broker's, unless there is another."""
    broker = kombu_broker(settings.broker_url)
    connection: Any = Connection(broker.url, transport_options=broker.options)
    with connection, connection.SimpleQueue("doorbells") as queue:
        queue.put("ring")
        message = queue.get(timeout=10)
        message.ack()
    assert message.payload == "ring"


def command(server: RedisServer, *words: str) -> None:
    with Redis(port=server.port) as client:
        client.execute_command(*words)  # pyright: ignore[reportUnknownMemberType]  # redis-py leaves **kwargs untyped


async def test_a_plain_address_and_a_database(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as server:
        await enqueue_both_ways(f"redis://127.0.0.1:{server.port}/3")

        with Redis(port=server.port, db=3) as client:
            assert client.dbsize()  # pyright: ignore[reportUnknownMemberType]  # redis-py leaves **kwargs untyped


async def test_a_password_with_every_odd_character(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as server:
        command(server, "CONFIG", "SET", "requirepass", PASSWORD)

        await enqueue_both_ways(f"redis://:{QUOTED}@127.0.0.1:{server.port}/0")
        await enqueue_both_ways(f"redis://127.0.0.1:{server.port}/1?password={QUOTED}")


@pytest.mark.parametrize("credential", ["", ":wrong@"])
def test_a_refused_credential_is_a_configuration_error_that_does_not_show_it(
    tmp_path: Path, credential: str
) -> None:
    with RedisServer(tmp_path) as server:
        command(server, "CONFIG", "SET", "requirepass", PASSWORD)
        settings = WorkerSettings.load(redis_url=f"redis://{credential}127.0.0.1:{server.port}/0")

        with MemoryJobs(settings) as jobs, pytest.raises(ConfigError, match="`redis_url`") as caught:
            jobs.enqueue_sync(BUILD, root="team:acme")

    assert "wrong" not in str(caught.value)


async def test_a_unix_socket(tmp_path: Path) -> None:
    # Not in the test's own folder: the path of a socket holds 107 bytes at most.
    path = Path(f"/tmp/tinymemory-{free_port()}.sock")
    with RedisServer(tmp_path, "--unixsocket", str(path)):
        await enqueue_both_ways(f"unix://{path}?db=1")


async def test_a_unix_socket_behind_a_password(tmp_path: Path) -> None:
    path = Path(f"/tmp/tinymemory-{free_port()}.sock")
    with RedisServer(tmp_path, "--unixsocket", str(path)) as server:
        command(server, "CONFIG", "SET", "requirepass", PASSWORD)

        await enqueue_both_ways(f"unix://:{QUOTED}@{path}?db=1")


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    names = "-subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    files = f"-keyout {key} -out {certificate}"
    subprocess.run(f"{command} {names} {files}".split(), check=True, capture_output=True)
    return certificate, key


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate")
@pytest.mark.skipif(
    not os.environ.get("CI") and shutil.which("redis-server") is None,
    reason="the Redis of the development environment speaks no TLS",
)
async def test_tls(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    authority, key = certificate
    port = free_port()
    options = ["--tls-port", str(port), "--tls-cert-file", str(authority), "--tls-key-file", str(key)]
    options += ["--tls-ca-cert-file", str(authority), "--tls-auth-clients", "no"]
    with RedisServer(tmp_path / "redis", *options):
        await enqueue_both_ways(f"rediss://127.0.0.1:{port}/0?ssl_ca_certs={authority}")
        with (
            MemoryJobs(WorkerSettings.load(redis_url=f"rediss://127.0.0.1:{port}/0")) as jobs,
            pytest.raises(UnavailableError, match=r"(?i)certificate"),
        ):
            jobs.enqueue_sync(BUILD, root="team:acme")


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[tuple[RedisServer, int]]:
    """A server and the port of a sentinel that watches it as `mymaster`."""
    executable = redis_executable()
    assert executable is not None
    port = free_port()
    with RedisServer(tmp_path / "redis") as server:
        configuration = tmp_path / "sentinel.conf"
        configuration.write_text(
            f"port {port}\nbind 127.0.0.1\ndir {tmp_path}\nlogfile {tmp_path / 'sentinel.log'}\n"
            f"sentinel monitor mymaster 127.0.0.1 {server.port} 1\n"
        )
        process = subprocess.Popen([executable, str(configuration), "--sentinel"])
        try:
            wait_until_listening(port)
            yield server, port
        finally:
            process.kill()
            process.wait()


def wait_until_listening(port: int) -> None:
    deadline = time.monotonic() + 20
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        assert time.monotonic() < deadline
        time.sleep(0.02)


async def test_sentinels_lead_to_the_master(watched: tuple[RedisServer, int]) -> None:
    server, port = watched

    # The first sentinel is away.
    await enqueue_both_ways(f"sentinel://127.0.0.1:1;127.0.0.1:{port}/2?master=mymaster")

    with Redis(port=server.port, db=2) as client:
        assert client.dbsize()  # pyright: ignore[reportUnknownMemberType]  # redis-py leaves **kwargs untyped


def test_the_parts_of_a_sentinel_url_are_read() -> None:
    url = "sentinel://:s%40cret@a:1;sentinel://b/3?master=m&sentinel_password=other&ssl=true"

    for client in (sync_redis(url), async_redis(url)):
        pool: Any = client.connection_pool
        assert (pool.connection_kwargs["password"], pool.connection_kwargs["db"]) == ("s@cret", 3)
        found: list[dict[str, Any]] = [
            sentinel.connection_pool.connection_kwargs for sentinel in pool.sentinel_manager.sentinels
        ]
        assert [(one["host"], one["port"], one["password"]) for one in found] == [
            ("a", 1, "other"),
            ("b", 26379, "other"),
        ]


@pytest.mark.parametrize("make", [sync_redis, async_redis])
@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:6379",
        "http://localhost",
        "redis://host:port/0",
        "redis://host/0?no_such_option=1",
        "sentinel://a:x/0?master=m",
        "sentinel://a/none?master=m",
        "sentinel:///0?master=m",
    ],
)
def test_a_malformed_url_is_refused_and_says_what_is_accepted(
    make: Callable[[str], object], url: str
) -> None:
    with pytest.raises(ConfigError, match="`redis_url` must be redis://, rediss://, unix:// or sentinel://"):
        make(url)


def test_sentinels_without_the_masters_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="master=name"):
        sync_redis("sentinel://a:26379/0")


def test_a_malformed_url_is_told_when_the_host_starts_and_not_at_its_first_turn() -> None:
    with pytest.raises(ConfigError, match="`redis_url`"):
        MemoryJobs(WorkerSettings.load(redis_url="http://:hunter2@localhost"))


def test_a_url_may_set_timeouts_of_its_own() -> None:
    client = sync_redis("redis://localhost/0?socket_timeout=2.5", timeout=0.2)

    assert client.connection_pool.connection_kwargs["socket_timeout"] == 2.5
