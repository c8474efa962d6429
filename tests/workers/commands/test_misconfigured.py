"""What is set wrong is one line that says so and an exit code for it, never a traceback."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tinymemory.exit import ExitCode

TINYMEMORY = Path(sys.executable).with_name("tinymemory")


def run(*words: str, folder: Path, env: dict[str, str] | None = None) -> tuple[int, str]:
    """The command as it is installed, and what it complains of."""
    done = subprocess.run(
        [TINYMEMORY, *words],
        cwd=folder,
        env={**os.environ, "TERM": "dumb", **(env or {})},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(("words"), [("spool", "stats"), ("spool", "replay"), ("jobs", "stats")])
def test_a_spool_that_is_a_file_is_said_to_be_no_folder(
    tmp_path: Path, ledger_url: str, words: tuple[str, ...]
) -> None:
    spool = tmp_path / "spool"
    spool.write_text("")

    code, complaint = run(*words, folder=tmp_path, env={"TINYMEMORY_SPOOL_DIR": str(spool)})

    assert (code, complaint.count("\n")) == (ExitCode.CONFIG, 1)
    assert f"{spool}, which is no folder" in complaint


def test_a_spool_below_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    spool = tmp_path / "file" / "spool"

    code, complaint = run("spool", "stats", folder=tmp_path, env={"TINYMEMORY_SPOOL_DIR": str(spool)})

    assert (code, complaint.count("\n")) == (ExitCode.CONFIG, 1)
    assert f"{spool} cannot be used: Not a directory" in complaint


@pytest.mark.parametrize(
    "words", [("jobs", "list"), ("doctor",), ("worker",), ("beat",), ("search", "boats")]
)
@pytest.mark.parametrize("content", [b"build_delay = = 3", b"\xff\xfe"])
def test_a_settings_file_that_is_no_toml_is_named(
    tmp_path: Path, words: tuple[str, ...], content: bytes
) -> None:
    (tmp_path / "tinymemory.toml").write_bytes(content)

    code, complaint = run(*words, folder=tmp_path)

    assert (code, complaint.count("\n")) == (ExitCode.CONFIG, 1)
    assert "tinymemory.toml" in complaint


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("build_dely = 3", "`build_dely`, which is no setting: is it `build_delay`?"),
        ("zzz = 1", "`zzz`, which"),
    ],
)
def test_a_setting_that_does_not_exist_is_refused_with_the_one_it_is_near_to(
    tmp_path: Path, line: str, said: str
) -> None:
    (tmp_path / "tinymemory.toml").write_text(f"{line}\n[engines.cortexdb]\nendpoint = 'https://x.example'\n")

    code, complaint = run("jobs", "list", folder=tmp_path)

    assert (code, complaint.count("\n")) == (ExitCode.CONFIG, 1)
    assert said in complaint


@pytest.mark.parametrize("value", ["not json, and secret", '["secret"]'])
def test_profiles_that_are_no_json_object_are_named_without_their_value(tmp_path: Path, value: str) -> None:
    code, complaint = run("jobs", "list", folder=tmp_path, env={"TINYMEMORY_PROFILES": value})

    assert (code, complaint.count("\n")) == (ExitCode.CONFIG, 1)
    assert "profiles" in complaint.lower()
    assert "secret" not in complaint


@pytest.mark.parametrize("command", ["worker", "beat"])
def test_a_log_level_there_is_not_is_a_usage_error(tmp_path: Path, command: str) -> None:
    code, complaint = run(command, "--log-level", "LOUD", folder=tmp_path)

    assert code == ExitCode.USAGE
    assert "'LOUD' is none of DEBUG" in complaint
    assert "Traceback" not in complaint


def test_a_port_that_is_taken_is_named_by_flower(tmp_path: Path, ledger_url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, complaint = run("flower", "--port", port, folder=tmp_path)

    assert code == ExitCode.CONFIG
    assert f"error: configuration error: flower cannot listen on 127.0.0.1:{port}" in complaint
    assert "Address already in use" in complaint
    assert "Traceback" not in complaint
