import stat
import subprocess
import time
from pathlib import Path

import pytest
from redis import AuthenticationError, Redis
from redis.exceptions import RedisError

from workers import embedded
from workers.embedded import EmbeddedBroker, embedded_broker, redis_executable


def answers(url: str) -> bool:
    try:
        with Redis.from_url(url, socket_timeout=1.0) as client:  # pyright: ignore[reportUnknownMemberType]  # redis-py leaves **kwargs untyped
            return bool(client.ping())  # pyright: ignore[reportUnknownMemberType]  # the same
    except AuthenticationError:
        raise
    except RedisError:
        return False


def started(broker: EmbeddedBroker) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(broker.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 20
    while not answers(broker.url):
        assert time.monotonic() < deadline, "the broker did not start"
        time.sleep(0.02)
    return process


def test_it_is_a_real_server_behind_a_password_that_keeps_its_data(tmp_path: Path) -> None:
    broker = embedded_broker(tmp_path / "redis")
    process = started(broker)
    try:
        with Redis.from_url(broker.url) as client:  # pyright: ignore[reportUnknownMemberType]  # redis-py leaves **kwargs untyped
            client.set("owed", "1")
        with pytest.raises(AuthenticationError):
            answers(f"redis://:wrong@127.0.0.1:{broker.port}/0")
    finally:
        process.terminate()
        process.wait()

    again = embedded_broker(tmp_path / "redis")
    process = started(again)
    try:
        with Redis.from_url(again.url) as client:  # pyright: ignore[reportUnknownMemberType]  # redis-py leaves **kwargs untyped
            assert client.get("owed") == b"1"
    finally:
        process.kill()
        process.wait()


def test_only_this_user_can_read_the_password(tmp_path: Path) -> None:
    broker = embedded_broker(tmp_path / "redis")
    configuration = Path(broker.command[1])

    assert broker.password is not None
    assert broker.password not in " ".join(broker.command)
    assert stat.S_IMODE(configuration.stat().st_mode) == 0o600


def test_without_a_server_it_is_fakeredis_and_says_it_is_not_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "redis_executable", lambda: None)
    broker = embedded_broker(tmp_path / "redis")

    assert not broker.durable
    process = started(broker)
    try:
        with Redis.from_url(broker.url) as client:  # pyright: ignore[reportUnknownMemberType]  # redis-py leaves **kwargs untyped
            assert client.eval("return 1 + 1", 0) == 2
    finally:
        process.kill()
        process.wait()


def test_a_server_on_path_wins_over_the_wheels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    valkey = tmp_path / "valkey-server"
    valkey.write_text("#!/bin/sh\n")
    valkey.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert redis_executable() == str(valkey)

    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert redis_executable() != str(valkey)
