"""Flower keeps its size however many jobs pass: what our command sets, and not Flower's own default."""

import time
from pathlib import Path
from typing import Any

import httpx
from harness import Live

from workers.embedded import free_port
from workers.testing import RedisServer

LOGIN = ("operator", "let-me-in")
RUNS = 15_000
BATCH = 100
RUNS_PER_SECOND = 1_000
"""Faster than workers are, and no faster than Flower reads: Redis cuts off a subscriber that lags."""
MOST_BYTES = 256 * 1024 * 1024


def flood(layer: Live, runs: int) -> None:
    """The events of so many runs, as a worker would send them."""
    app: Any = layer.app
    with app.connection_for_write() as connection:
        dispatcher = app.events.Dispatcher(
            connection, hostname="worker1@flood", buffer_group=["task"], buffer_limit=10 * BATCH
        )
        for number in range(runs):
            id_ = f"build:team:t{number % 500}:{number:020x}:1"
            dispatcher.send(
                "task-received",
                uuid=id_,
                name="tinymemory.build_beliefs",
                args=f"team:t{number % 500}/agent:support-01 [conversation]",
                kwargs="",
                retries=0,
                eta=None,
            )
            dispatcher.send("task-started", uuid=id_)
            result = '{"job": "build_beliefs", "outcome": "done", "built": 1, "scopes": 1}'
            dispatcher.send("task-succeeded", uuid=id_, result=result, runtime=0.1)
            if number % BATCH == BATCH - 1:
                dispatcher.flush()
                time.sleep(BATCH / RUNS_PER_SECOND)
        dispatcher.flush()


def most_resident(pid: int) -> int:
    """The most bytes of memory a process has held."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def test_r36_flower_forgets_the_oldest_rows_and_stays_small(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with RedisServer(tmp_path / "redis") as redis:
        layer = Live(tmp_path, redis.url)
        with layer.programs as programs, httpx.Client(auth=LOGIN, trust_env=False, timeout=60) as client:
            port = url.rpartition(":")[2]
            flower = programs.start("flower", "--port", port, "--basic-auth", ":".join(LOGIN), wait=False)
            flower.wait_for("Connected to")
            flood(layer, RUNS)
            last = f"build:team:t{(RUNS - 1) % 500}:{RUNS - 1:020x}:1"
            deadline = time.monotonic() + 90
            while not client.get(f"{url}/api/task/info/{last}").is_success:
                assert time.monotonic() < deadline, "the last run never came"
                time.sleep(0.3)
            first = client.get(f"{url}/api/task/info/build:team:t0:{0:020x}:1")
            size = most_resident(flower.pid)
        layer.redis.close()
        layer.app.close()

    assert first.status_code == 404
    assert size < MOST_BYTES
