"""The journal of an ingest: what it remembers, how large it gets, and disks and processes that fail."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from full_disk import full_disk

from workers.journal import SPARE_LINES, FileMark, Journal, JournalError, Version
from workers.ledger import JobKey

AIM = "team:acme"


def mark(path: str, time: int = 1) -> FileMark:
    return FileMark(path, 10, time)


def version(path: str, time: int = 1) -> Version:
    return Version(f"{path}@{time}", JobKey(f"ingest:{AIM}:{time:020x}"))


def files(names: Sequence[str], time: int = 1) -> list[tuple[FileMark, Version]]:
    return [(mark(name, time), version(name, time)) for name in names]


def ingest(journal: Journal, names: Sequence[str], time: int = 1) -> None:
    journal.begin(files(names, time))
    journal.accept(files(names, time))


def lines(folder: Path) -> int:
    (file,) = (folder / "ingest").glob("*.jsonl")
    return sum(bool(line) for line in file.read_bytes().splitlines())


def test_a_journal_of_many_runs_stays_in_proportion_to_its_files(tmp_path: Path) -> None:
    names = [f"/{number}.md" for number in range(100)]
    for time in range(60):
        journal = Journal(tmp_path, AIM)
        ingest(journal, names, time)
        journal.gone([(name, version(name, time - 1)) for name in names if time])

    assert lines(tmp_path) < 2 * len(names) + SPARE_LINES + 400
    journal = Journal(tmp_path, AIM)
    assert all(journal.accepted_as(mark(name, 59)) == version(name, 59) for name in names)
    assert journal.outdated() == []


def test_what_is_written_anew_says_the_same(tmp_path: Path) -> None:
    journal = Journal(tmp_path, AIM)
    ingest(journal, ["/changed.md", "/begun.md", "/whole.md"], 1)
    ingest(journal, ["/changed.md"], 2)
    journal.begin(files(["/begun.md"], 2))
    before = journal.outdated()

    journal.going([("/changed.md", version("/changed.md"))] * (SPARE_LINES + 20))
    journal.begin(files(["/one-more.md"]))

    assert lines(tmp_path) == 7
    for told in (journal, Journal(tmp_path, AIM)):
        assert told.outdated() == before
        assert [one.old for one in before] == [(version("/changed.md", 1),)]
        assert told.accepted_as(mark("/whole.md")) == version("/whole.md")
        assert told.accepted_as(mark("/begun.md")) is told.accepted_as(mark("/begun.md", 2)) is None
        assert told.replaces("/begun.md", version("/begun.md", 3).id)


def test_a_process_that_read_the_old_one_goes_on_with_the_new_one(tmp_path: Path) -> None:
    names = [f"/{number}.md" for number in range(SPARE_LINES)]
    other = Journal(tmp_path, AIM)
    ingest(other, ["/before.md"])
    journal = Journal(tmp_path, AIM)
    for time in range(6):
        ingest(journal, names, time)
        journal.gone([(name, version(name, time - 1)) for name in names if time])

    ingest(other, ["/after.md"])

    assert other.accepted_as(mark(names[0], 5)) == version(names[0], 5)
    assert other.outdated() == []
    fresh = Journal(tmp_path, AIM)
    assert fresh.accepted_as(mark("/before.md"))
    assert fresh.accepted_as(mark("/after.md"))


def test_nothing_is_lost_when_many_write_while_it_is_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.journal.SPARE_LINES", 5)

    def run(writer: int) -> None:
        journal = Journal(tmp_path, AIM)
        for time in range(40):
            ingest(journal, [f"/{writer}.md", f"/{writer}-{time}.md"], time)
            ingest(journal, [f"/{writer}.md"], time)

    # Each with a journal of its own, as processes have.
    threads = [threading.Thread(target=run, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    journal = Journal(tmp_path, AIM)
    assert lines(tmp_path) < 4 * 40 * 6
    for writer in range(4):
        assert journal.accepted_as(mark(f"/{writer}.md", 39))
        assert all(journal.accepted_as(mark(f"/{writer}-{time}.md", time)) for time in range(40))


_KILLED = """
import os, signal, sys
from pathlib import Path

import workers.journal
from workers.journal import FileMark, Journal, Version


def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


if sys.argv[2] == "half written":
    whole = workers.journal.json.dumps
    workers.journal.json.dumps = lambda line: die() if line.get("path") == "/50.md" else whole(line)
elif sys.argv[2] == "written":
    Path.replace = die
else:
    workers.journal._sync_folder = die
workers.journal.SPARE_LINES = 0
version = Version("new", "ingest:team:acme:1")
Journal(Path(sys.argv[1]), "team:acme").begin([(FileMark("/new.md", 10, 1), version)])
"""


@pytest.mark.parametrize("when", ["half written", "written", "replaced"])
def test_a_kill_while_it_is_written_anew_loses_nothing_that_was_accepted(tmp_path: Path, when: str) -> None:
    names = [f"/{number}.md" for number in range(100)]
    other = Journal(tmp_path, AIM)
    for _ in range(3):
        ingest(other, names)

    killed = subprocess.run([sys.executable, "-c", _KILLED, str(tmp_path), when], check=False)

    assert killed.returncode == -signal.SIGKILL
    assert lines(tmp_path) == (101 if when == "replaced" else 600)
    ingest(other, ["/after.md"])
    for told in (other, Journal(tmp_path, AIM)):
        assert all(told.accepted_as(mark(name)) for name in [*names, "/after.md"])


def test_a_full_disk_keeps_the_journal_that_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"/{number}.md" for number in range(100)]
    journal = Journal(tmp_path, AIM)
    ingest(journal, names)
    for _ in range(3):
        ingest(journal, names[:50])
    monkeypatch.setattr("workers.journal.SPARE_LINES", 0)

    with full_disk(2000), pytest.raises(JournalError, match=r"\.jsonl cannot be written"):
        journal.begin(files(["/new.md"]))

    assert [path.suffix for path in sorted((tmp_path / "ingest").iterdir())] == [".jsonl", ".lock"]
    for told in (journal, Journal(tmp_path, AIM)):
        assert all(told.accepted_as(mark(name)) for name in names)
    journal.begin(files(["/new.md"]))
    assert lines(tmp_path) < 110


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_journal_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    ingest(Journal(tmp_path, AIM), ["/one.md"])
    (file,) = (tmp_path / "ingest").glob("*.jsonl")
    file.chmod(0)

    with pytest.raises(JournalError, match=file.name):
        Journal(tmp_path, AIM)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("no folder")

    with pytest.raises(JournalError, match="Not a directory"):
        ingest(Journal(tmp_path / "data", AIM), ["/one.md"])
