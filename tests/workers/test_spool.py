"""Jobs kept in files: whole, in order, shared by processes, and gone when erased."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tinymemory.errors import UnavailableError
from tinymemory.namespace import Namespace
from workers import spool as module
from workers.ledger import Coverage, NewJob
from workers.spool import Spool

MIB = 1024 * 1024


def job(name: str, root: str = "team:acme", **fields: Any) -> NewJob:
    given: dict[str, Any] = {
        "key": f"build:{root}:{name}",
        "queue": "tinymemory.beliefs",
        "profile": "default",
        "scope": f"{root}/agent:é [conversation]",
        "envelope": '{"v":1}',
        "delay": 0.25,
        "coverage": Coverage(root, inherit=False, descendants=True, kinds=("conversation",)),
    }
    return NewJob(**(given | fields))


def replayed(spool: Spool) -> list[NewJob]:
    found: list[NewJob] = []
    spool.replay(found.extend)
    return found


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "spool", limit=MIB)


def test_jobs_come_back_as_they_were_in_the_order_they_came(spool: Spool) -> None:
    ingest = job("c", key="ingest:team:acme:c", coverage=None, batch="b" * 20, delay=0.0)
    spool.append([job("a"), job("b")])
    spool.append([ingest])

    assert replayed(spool) == [job("a"), job("b"), ingest]
    assert replayed(spool) == []
    assert spool.stats().lines == 0


def test_a_line_is_one_json_object_a_job(spool: Spool) -> None:
    spool.append([job("a"), job("b", envelope='{"v":1,\n"text":"two\u2028lines"}')])

    [segment] = spool.folder.glob("*.jsonl")
    lines = segment.read_text().splitlines()

    assert [json.loads(line)["key"] for line in lines] == ["build:team:acme:a", "build:team:acme:b"]


def test_only_the_owner_may_read_what_is_kept(spool: Spool) -> None:
    spool.append([job("a")])

    [segment] = spool.folder.glob("*.jsonl")
    assert segment.stat().st_mode & 0o077 == 0
    assert spool.folder.stat().st_mode & 0o077 == 0


def test_the_line_is_on_the_disk_when_append_returns(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    fsync = os.fsync

    def record(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_size)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    spool.append([job("a")])

    [segment] = spool.folder.glob("*.jsonl")
    assert segment.stat().st_size in synced


def test_a_full_spool_refuses_all_of_a_batch_and_says_so(tmp_path: Path) -> None:
    spool = Spool(tmp_path, limit=1000)
    spool.append([job("a")])

    with pytest.raises(UnavailableError, match=r"spool is full.*`spool_limit`"):
        spool.append([job("b"), job("c"), job("d")])

    assert replayed(spool) == [job("a")]


def test_a_folder_that_cannot_be_written_is_an_outage(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(UnavailableError, match="spool cannot be written"):
        Spool(tmp_path / "file" / "spool", limit=MIB).append([job("a")])


def test_a_torn_last_line_is_survived_and_spoils_no_other(spool: Spool) -> None:
    spool.append([job("a")])
    [segment] = spool.folder.glob("*.jsonl")
    with segment.open("ab") as file:
        file.write(b'{"v":1,"key":"build:team:ac')

    spool.append([job("b")])
    found: list[NewJob] = []
    result = spool.replay(found.extend)

    assert found == [job("a"), job("b")]
    assert result is not None
    assert (result.sent, result.torn) == (2, 1)
    assert spool.is_empty()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(cut=st.integers(0, 600))
def test_wherever_a_crash_cuts_a_line_the_whole_ones_come_back(tmp_path: Path, cut: int) -> None:
    spool = Spool(tmp_path / str(cut), limit=MIB)
    replayed(spool)
    spool.append([job("a"), job("b"), job("c")])
    [segment] = spool.folder.glob("*.jsonl")
    data = segment.read_bytes()[:cut]
    segment.write_bytes(data)
    whole = data.count(b"\n")

    found = replayed(spool)

    # A line that lacks but its end is whole too.
    assert found[:whole] == [job("a"), job("b"), job("c")][:whole]
    assert len(found) <= whole + 1


def test_a_replay_that_fails_keeps_what_it_did_not_send(spool: Spool) -> None:
    spool.append([job(str(number)) for number in range(250)])
    calls: list[Sequence[NewJob]] = []

    def fail_at_the_third(jobs: Sequence[NewJob]) -> None:
        calls.append(jobs)
        if len(calls) == 3:
            raise ConnectionError

    with pytest.raises(ConnectionError):
        spool.replay(fail_at_the_third)

    spool.append([job("later")])
    found = replayed(spool)
    assert found == [*(job(str(number)) for number in range(250)), job("later")]


def test_what_is_spooled_during_a_replay_waits_for_the_next(spool: Spool) -> None:
    spool.append([job("a")])

    def append_more(jobs: Sequence[NewJob]) -> None:
        assert list(jobs) == [job("a")]
        spool.append([job("b")])

    spool.replay(append_more)

    assert replayed(spool) == [job("b")]


def test_a_replay_stops_between_segments_when_told(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SEGMENT_BYTES", 1)
    for name in "abc":
        spool.append([job(name)])
    found: list[NewJob] = []

    result = spool.replay(found.extend, go_on=lambda: len(found) < 2)

    assert result is not None
    assert (found, result.finished) == ([job("a"), job("b")], False)
    assert replayed(spool) == [job("c")]


def test_one_process_replays_at_a_time(spool: Spool) -> None:
    spool.append([job("a")])
    inner: list[object] = []

    spool.replay(lambda _jobs: inner.append(Spool(spool.folder, limit=MIB).replay(lambda _: None)))

    assert inner == [None]


def test_a_line_of_a_newer_release_is_set_aside_and_counted(spool: Spool) -> None:
    spool.append([job("a")])
    [segment] = spool.folder.glob("*.jsonl")
    newer = b'{"v":2,"key":"build:team:acme:n"}\n'
    segment.write_bytes(newer + segment.read_bytes())
    found: list[NewJob] = []

    result = spool.replay(found.extend)

    assert found == [job("a")]
    assert result is not None
    assert result.rejected == 1
    assert (spool.folder / "rejected.jsonl").read_bytes() == newer


def test_erasing_a_root_removes_its_lines_and_no_other_tenants_below_it_either(spool: Spool) -> None:
    others = [job("b", "team:acme/project:x"), job("c", "team:acme-2"), job("d", "root")]
    spool.append([job("a"), *others])

    erased = spool.erase(Namespace.parse("team:acme"))

    assert erased == 1
    assert replayed(spool) == others
    assert spool.erase(Namespace.parse("team:acme")) == 0


def test_erasing_from_a_spool_that_was_never_used_is_nothing(spool: Spool) -> None:
    assert spool.erase(Namespace.parse("team:acme")) == 0
    assert not spool.folder.exists()


def test_the_stats_count_what_waits(spool: Spool) -> None:
    assert spool.stats() == module.SpoolStats(0, 0, 0)

    spool.append([job("a"), job("b")])

    stats = spool.stats()
    assert (stats.files, stats.lines) == (1, 2)
    assert stats.bytes == sum(path.stat().st_size for path in spool.folder.glob("*.jsonl"))


_WRITER = """
import sys
from pathlib import Path
from workers.ledger import NewJob
from workers.spool import Spool

spool = Spool(Path(sys.argv[1]), limit=1 << 26)
print("ready", flush=True)
for number in range(int(sys.argv[3])):
    key = f"build:team:acme:{sys.argv[2]}-{number}"
    spool.append([NewJob(key=key, queue="q", profile="default", scope="s", envelope="x" * 500)])
    print(number, flush=True)
"""


def test_two_processes_share_a_folder_while_a_third_replays(spool: Spool) -> None:
    command = [sys.executable, "-c", _WRITER, str(spool.folder)]
    writers = [
        subprocess.Popen([*command, name, "100"], stdout=subprocess.DEVNULL) for name in ("one", "two")
    ]
    found: list[NewJob] = []

    while any(writer.poll() is None for writer in writers):
        spool.replay(found.extend)
    spool.replay(found.extend)

    assert [writer.wait() for writer in writers] == [0, 0]
    for name in ("one", "two"):
        keys = [one.key for one in found if f":{name}-" in one.key]
        assert keys == [f"build:team:acme:{name}-{number}" for number in range(100)]


def test_what_a_killed_process_was_told_is_kept_is_kept(spool: Spool) -> None:
    command = [sys.executable, "-c", _WRITER, str(spool.folder), "one", "100000"]
    writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    for line in writer.stdout:
        if line.strip() == "50":
            break
    writer.send_signal(signal.SIGKILL)
    told = 51 + len(writer.stdout.readlines())
    writer.stdout.close()
    writer.wait()

    found = [one.key for one in replayed(spool)]

    assert found[:told] == [f"build:team:acme:one-{number}" for number in range(told)]
