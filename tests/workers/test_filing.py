import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from full_disk import with_full_disk
from redis import Redis

from tinymemory.errors import InvalidRequestError
from workers.embedded import free_port
from workers.filing import changed_files, find_files
from workers.testing import RedisServer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Five notes, one of them in a folder, one broken file, one hidden."""
    folder = tmp_path / "notes"
    (folder / "deep").mkdir(parents=True)
    for number in range(4):
        (folder / f"note{number}.md").write_text(
            f"# Note {number}\n\nThe code of note {number} is x{number}.\n"
        )
    (folder / "deep" / "note4.md").write_text("# Note 4\n\nDeep down.\n")
    (folder / ".hidden.md").write_text("# Hidden\n")
    return folder


@pytest.fixture
def ingest(redis_server: RedisServer, tmp_path: Path) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Runs `tinymemory ingest` on an empty ledger."""
    with Redis(port=redis_server.port) as client:
        client.flushall()  # pyright: ignore[reportUnknownMemberType]  # redis-py leaves **kwargs untyped

    def run(
        *arguments: str | Path, stdin: str | None = None, disk: int | None = None, **env: str
    ) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "tinymemory", "ingest", *map(str, arguments)],
            env={
                **os.environ,
                "TINYMEMORY_REDIS_URL": redis_server.url,
                "TINYMEMORY_DATA_DIR": str(tmp_path / "data"),
                **env,
            },
            input=stdin,
            preexec_fn=None if disk is None else with_full_disk(disk),
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )

    return run


def report(done: "subprocess.CompletedProcess[str]") -> Any:
    return json.loads(done.stdout)


def test_folders_are_walked_once_in_order_and_what_is_hidden_is_passed_over(folder: Path) -> None:
    found = list(find_files([str(folder), str(folder / "note1.md"), str(folder / "*.md")]))

    assert [path.name for path in found] == ["note0.md", "note1.md", "note2.md", "note3.md", "note4.md"]


def test_a_path_that_names_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match=r"nope\*"):
        list(find_files([str(tmp_path / "nope*")]))


def test_files_are_enqueued_in_batches_under_the_root(ingest: Any, folder: Path, redis: Any) -> None:
    done = ingest(folder, "--root", "team:acme", "--json")

    assert done.returncode == 0, done.stderr
    answer = report(done)
    assert (answer["accepted"], answer["failed"]) == (5, [])
    (key,) = answer["jobs"]
    assert key.startswith("ingest:team:acme:")


def test_what_was_sent_is_not_sent_again_until_it_changes(ingest: Any, folder: Path) -> None:
    ingest(folder)
    again = report(ingest(folder, "--json"))
    (folder / "note2.md").write_text("# Note 2\n\nChanged.\n")
    changed = report(ingest(folder, "--json"))

    assert (again["accepted"], again["unchanged"]) == (0, 5)
    assert (changed["accepted"], changed["unchanged"]) == (1, 4)
    assert report(ingest(folder, "--again", "--json"))["accepted"] == 5


def test_another_root_is_sent_its_own(ingest: Any, folder: Path) -> None:
    ingest(folder, "--root", "team:acme")

    assert report(ingest(folder, "--root", "team:beta", "--json"))["accepted"] == 5


def test_r56_a_broken_file_fails_by_name_and_the_others_go_through(ingest: Any, folder: Path) -> None:
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 and no more")

    done = ingest(folder, "--json")

    assert done.returncode == 1
    answer = report(done)
    assert answer["accepted"] == 5
    (failed,) = answer["failed"]
    assert failed["path"].endswith("broken.pdf")
    assert "broken.pdf" in failed["error"]
    table = ingest(folder / "broken.pdf")
    assert table.returncode == 1
    assert "broken.pdf" in table.stdout


def test_r56_a_broker_that_is_away_has_a_code_of_its_own(ingest: Any, folder: Path) -> None:
    done = ingest(folder, TINYMEMORY_REDIS_URL=f"redis://127.0.0.1:{free_port()}/0")

    assert done.returncode == 75
    assert report(ingest(folder, "--json"))["accepted"] == 5


def test_a_ledger_that_cannot_be_asked_about_unchanged_files_has_that_code_too(
    ingest: Any, folder: Path
) -> None:
    ingest(folder)

    done = ingest(folder, "--json", TINYMEMORY_REDIS_URL=f"redis://127.0.0.1:{free_port()}/0")

    assert done.returncode == 75
    assert report(done)["unchanged"] == 5
    assert "could not be asked" in done.stderr


@pytest.mark.parametrize("handed_over", [False, True])
def test_a_journal_whose_disk_is_full_is_named_and_nothing_is_lost(
    ingest: Any, folder: Path, tmp_path: Path, sync_redis: Redis, handed_over: bool
) -> None:
    ingest(folder, TINYMEMORY_DATA_DIR=str(tmp_path / "else"))
    (whole,) = (tmp_path / "else" / "ingest").glob("*.jsonl")
    sync_redis.flushall()  # pyright: ignore[reportUnknownMemberType]  # redis-py leaves **kwargs untyped

    # The lines before a batch are the shorter half.
    done = ingest(folder, "--json", disk=whole.stat().st_size // 2 + 1 if handed_over else 0)
    kept = sync_redis.keys("*:job:ingest:*")  # pyright: ignore[reportUnknownMemberType]  # as above
    again = report(ingest(folder, "--json"))

    (journal,) = (tmp_path / "data" / "ingest").glob("*.jsonl")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert str(journal) in done.stderr
    assert "the same command goes on" in done.stderr
    assert bool(kept) == handed_over
    if handed_over:
        assert [f"{{tinymemory}}:job:{key}" for key in report(done)["jobs"]] == kept
    assert again["accepted"] + again["unchanged"] == 5
    assert again["failed"] == []
    assert report(ingest(folder, "--json"))["unchanged"] == 5


def test_a_journal_that_cannot_be_opened_is_named(ingest: Any, folder: Path, tmp_path: Path) -> None:
    ingest(folder)
    (journal,) = (tmp_path / "data" / "ingest").glob("*.jsonl")
    journal.unlink()
    journal.mkdir()

    done = ingest(folder)

    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert str(journal) in done.stderr


def test_r56_an_unknown_flag_is_a_usage_error(ingest: Any, folder: Path) -> None:
    assert ingest(folder, "--nope").returncode == 2


def test_a_dry_run_shows_what_would_be_sent_and_needs_no_broker(ingest: Any, folder: Path) -> None:
    done = ingest(folder, "--dry-run", "--json", TINYMEMORY_REDIS_URL="redis://127.0.0.1:1/0")

    assert done.returncode == 0, done.stderr
    answer = report(done)
    assert answer["jobs"] == []
    assert [one["title"] for one in answer["converted"]].count("Note 0") == 1


@pytest.mark.parametrize(
    ("option", "name", "content", "reason"),
    [
        ("--max-file", "large.md", "words " * 200_000, "too-large"),
        ("--max-cells", "table.csv", "a,b\n1,2\n", "too-large"),
    ],
)
def test_each_limit_can_be_set(
    ingest: Any, tmp_path: Path, option: str, name: str, content: str, reason: str
) -> None:
    file = tmp_path / name
    file.write_text(content)

    within = report(ingest(file, "--dry-run", "--json"))
    done = ingest(file, option, "1", "--dry-run", "--json")

    assert within["failed"] == []
    assert done.returncode == 1
    (failed,) = report(done)["failed"]
    assert (failed["reason"], failed["path"]) == (reason, str(file))


def test_what_an_archive_may_unpack_to_can_be_set(ingest: Any, tmp_path: Path) -> None:
    file = tmp_path / "book.docx"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b"<w:document/>")
        archive.writestr("word/media/filler.bin", bytes(2 << 20))

    (failed,) = report(ingest(file, "--max-unpacked", "1", "--dry-run", "--json"))["failed"]
    (malformed,) = report(ingest(file, "--dry-run", "--json"))["failed"]

    assert failed["reason"] == "archive-too-large"
    assert malformed["reason"] == "malformed"


def test_stdin_is_a_document_too(ingest: Any) -> None:
    done = ingest("-", "--name", "piped.md", "--json", stdin="# Piped\n\nSome words.\n")

    assert done.returncode == 0, done.stderr
    assert report(done)["accepted"] == 1


def test_secrets_are_scrubbed_when_one_setting_says_so(ingest: Any, tmp_path: Path) -> None:
    note = tmp_path / "note.md"
    note.write_text("Write to ann@example.com or call +351 912 345 678.\n")

    kept = report(ingest(note, "--json"))
    scrubbed = report(ingest(note, "--json", TINYMEMORY_SCRUB="1"))

    assert kept["scrubbed"] == {}
    assert scrubbed["scrubbed"] == {"email": 1, "phone": 1}


def test_an_ingest_that_is_killed_goes_on_where_it_was(
    ingest: Any, tmp_path: Path, redis_server: RedisServer
) -> None:
    many = tmp_path / "many"
    many.mkdir()
    for number in range(600):
        (many / f"{number}.md").write_text(f"# {number}\n\nWords of {number}.\n" * 20)
    env = {
        **os.environ,
        "TINYMEMORY_REDIS_URL": redis_server.url,
        "TINYMEMORY_DATA_DIR": str(tmp_path / "data"),
    }
    command = [sys.executable, "-m", "tinymemory", "ingest", str(many)]
    first = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with Redis(port=redis_server.port) as client:
        deadline = time.monotonic() + 60
        while not client.keys("*:job:*") and time.monotonic() < deadline and first.poll() is None:  # pyright: ignore[reportUnknownMemberType]  # redis-py leaves **kwargs untyped
            time.sleep(0.005)
    first.send_signal(signal.SIGKILL)
    first.wait()

    answer = report(ingest(many, "--json"))

    assert answer["accepted"] + answer["unchanged"] == 600
    assert answer["failed"] == []
    assert report(ingest(many, "--json"))["unchanged"] == 600


def test_two_ingests_of_one_folder_at_once_are_one_in_the_end(ingest: Any, tmp_path: Path) -> None:
    many = tmp_path / "many"
    many.mkdir()
    for number in range(120):
        (many / f"{number}.md").write_text(f"# {number}\n\nWords of {number}.\n")

    with ThreadPoolExecutor() as threads:
        both = list(threads.map(ingest, [many, many], ["--json", "--json"]))

    assert [done.returncode for done in both] == [0, 0]
    for done in both:
        answer = report(done)
        assert (answer["accepted"] + answer["unchanged"], answer["outdated"]) == (120, [])
    assert report(ingest(many, "--json"))["unchanged"] == 120


async def test_a_followed_folder_misses_nothing_and_passes_over_what_is_hidden(folder: Path) -> None:
    aside = folder.parent / "aside"
    aside.mkdir()
    (aside / "moved.md").write_text("# Moved\n")
    changes = changed_files([folder])
    first = await anext(changes)

    aside.rename(folder / "moved-in")
    (folder / ".draft.md").write_text("# Draft\n")
    (folder / "deep" / "note4.md").write_text("# Changed\n")
    told: set[Path] = set()
    while len(told) < 2:
        told.update(await asyncio.wait_for(anext(changes), timeout=30))
    await changes.aclose()

    assert {path.name for path in first} == {f"note{number}.md" for number in range(5)}
    assert told == {folder / "moved-in" / "moved.md", folder / "deep" / "note4.md"}


def test_a_watched_folder_cannot_be_a_dry_run(ingest: Any, folder: Path) -> None:
    done = ingest(folder, "--watch", "--dry-run")

    assert done.returncode != 0
    assert "--dry-run" in done.stderr


def test_a_watched_folder_is_followed_until_ctrl_c(
    tmp_path: Path, redis_server: RedisServer, redis: Any
) -> None:
    folder = tmp_path / "watched"
    folder.mkdir()
    (folder / "first.md").write_text("# First\n")
    env = {
        **os.environ,
        "TINYMEMORY_REDIS_URL": redis_server.url,
        "TINYMEMORY_DATA_DIR": str(tmp_path / "data"),
    }
    command = [sys.executable, "-m", "tinymemory", "ingest", str(folder), "--watch"]
    watching = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert watching.stderr is not None
    with Redis(port=redis_server.port) as client:
        assert "following" in watching.stderr.readline()
        (folder / "second.md").write_text("# Second\n")
        deadline = time.monotonic() + 60
        while len(client.keys("*:job:ingest:*")) < 2:  # pyright: ignore[reportUnknownMemberType, reportArgumentType]  # redis-py leaves **kwargs untyped
            assert time.monotonic() < deadline
            time.sleep(0.05)
    watching.send_signal(signal.SIGINT)
    _, errors = watching.communicate(timeout=60)

    assert watching.returncode == 130
    assert "goes on where it was" in errors
    assert "Traceback" not in errors
