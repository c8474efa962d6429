"""The commands as people meet them: in a real terminal, wide and narrow, and at the end of a pipe."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from terminal import Terminal

from workers.ledger import Ledger, NewJob

TINYMEMORY = [sys.executable, "-m", "tinymemory"]


def test_watch_shows_the_ledger_live_and_ends_with_ctrl_c(
    keys: Any, on_ledger: Callable[[Callable[[Ledger], Any]], Any]
) -> None:
    with Terminal("jobs", "watch", "--every", "0.1") as terminal:
        terminal.wait_for("team:acme/agent:waiting [conversation]")
        before = terminal.screen
        on_ledger(lambda ledger: ledger.drop(keys.waiting))
        terminal.wait_for("0 waiting")
        after = terminal.screen
        terminal.press("c")
        code = terminal.end()

    assert "1 waiting  0 due  0 queued  0 running  1 parked  1 dead  1 done  1 retried" in before
    assert "default team:gamma" in before
    # In the same place, and not below the look before.
    assert after.count("tinymemory jobs") == 1
    assert keys.waiting not in after
    assert code == 130
    assert "Traceback" not in terminal.text


def test_watch_in_a_terminal_without_escapes_prints_each_look_after_the_other(keys: Any) -> None:
    with Terminal("jobs", "watch", "--every", "0.1", columns=40, env={"TERM": "dumb"}) as terminal:
        terminal.wait_for("SCOPE")
        terminal.press("c")
        code = terminal.end()

    assert code == 130
    assert not terminal.has_escapes
    assert max(len(line) for line in terminal.text.splitlines()) <= 40
    assert "Traceback" not in terminal.text


def test_at_forty_columns_a_job_is_a_block_of_lines_and_nothing_is_cut(keys: Any) -> None:
    with Terminal("jobs", "list", columns=40) as terminal:
        code = terminal.end()

    assert code == 0
    assert "KEY    build:team:gamma:" in terminal.screen
    assert "STATE  parked" in terminal.screen
    flat = terminal.screen.replace("\n       ", "")
    assert keys.parked in flat
    assert keys.waiting in flat


def test_at_eighty_columns_a_key_is_whole_and_what_has_no_room_is_below_it(keys: Any) -> None:
    with Terminal("jobs", "list", columns=80) as terminal:
        code = terminal.end()

    lines = terminal.screen.splitlines()
    assert code == 0
    assert lines[0].split() == ["KEY", "STATE", "DUE", "AGE", "MERGED", "TRIES"]
    assert lines[1].startswith(f"{keys.parked}  parked")
    assert lines[2:4] == [
        "  team:gamma/agent:parked [conversation]",
        "  InsufficientCreditsError: the account is out of credits",
    ]


def test_states_are_coloured_unless_no_color_is_set(keys: Any) -> None:
    with Terminal("jobs", "list") as coloured:
        coloured.end()
    with Terminal("jobs", "list", env={"NO_COLOR": "1"}) as plain:
        plain.end()

    assert coloured.has_colours
    assert not plain.has_colours
    assert keys.parked in plain.screen


@pytest.mark.parametrize(
    ("command", "question", "refusals"),
    [
        (("retry", "--all"), "1 dead letters will be retried", ("ctrl-c",)),
        (("drop", "waiting", "parked"), "Drop 2 jobs?", ("n",)),
        (("erase", "--root", "team:beta"), "Erase every job", ("ctrl-d",)),
    ],
)
def test_what_touches_many_asks_and_does_nothing_without_a_yes(
    operator: Any, keys: Any, command: tuple[str, ...], question: str, refusals: tuple[str, ...]
) -> None:
    named = {"waiting": keys.waiting, "parked": keys.parked}
    arguments = [named.get(word, word) for word in command]
    counted = ("waiting", "parked", "dead")
    before = operator.json("jobs", "stats")

    for refusal in refusals:
        with Terminal("jobs", *arguments) as terminal:
            terminal.wait_for(question)
            terminal.wait_for("[y/N]")
            if refusal == "ctrl-c":
                code = terminal.interrupt()
            elif refusal == "ctrl-d":
                terminal.press("d")
                code = terminal.end()
            else:
                terminal.answer(refusal)
                code = terminal.end()
        assert code == 1, terminal.text
        assert "Traceback" not in terminal.text
        unchanged = operator.json("jobs", "stats")
        assert [unchanged[name] for name in counted] == [before[name] for name in counted]

    with Terminal("jobs", *arguments) as terminal:
        terminal.wait_for("[y/N]")
        terminal.answer("y")
        assert terminal.end() == 0
    after = operator.json("jobs", "stats")
    assert [after[name] for name in counted] != [before[name] for name in counted]


def test_watch_tells_a_script_an_array_a_look(keys: Any) -> None:
    with subprocess.Popen(
        [*TINYMEMORY, "jobs", "watch", "--every", "0.1", "--json"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        looks = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.send_signal(signal.SIGINT)
        code = process.wait(60)

    assert [[job["key"] for job in look] for look in looks] == [[keys.parked, keys.waiting]] * 2
    assert code == 130


def test_one_job_named_by_its_key_is_dropped_without_a_question(operator: Any, keys: Any) -> None:
    with Terminal("jobs", "drop", keys.waiting) as terminal:
        code = terminal.end()

    assert code == 0
    assert "1 dropped" in terminal.screen
    assert operator.json("jobs", "show", keys.waiting)["state"] == "cancelled"


@pytest.fixture
def many(on_ledger: Callable[[Callable[[Ledger], Any]], Any]) -> int:
    """More jobs than a pipe's buffer holds lines of."""
    count = 1200
    jobs = [
        NewJob(
            key=f"build:team:acme:{number:020x}",
            queue="tinymemory.beliefs",
            profile="default",
            scope=f"team:acme/agent:support-{number:05} [conversation]",
            envelope="{}",
            delay=300.0,
        )
        for number in range(count)
    ]
    on_ledger(lambda ledger: ledger.enqueue(jobs))
    return count


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_reader_that_has_seen_enough_ends_the_command_in_silence(many: int, form: tuple[str, ...]) -> None:
    with subprocess.Popen(
        [*TINYMEMORY, "jobs", "list", "--limit", str(many), *form],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        start = process.stdout.read(10)
        process.stdout.close()
        complaint = process.stderr.read()
        code = process.wait(60)

    assert start.startswith(b'[{"key"' if form else b"KEY")
    assert complaint == b""
    assert code in (0, 141)


def test_in_a_pipe_a_job_is_one_line_however_long(many: int) -> None:
    # Said in full: where readline is loaded, a child would find a COLUMNS that Python does not know of.
    env = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    words = [*TINYMEMORY, "jobs", "list", "--limit", "3"]
    listed = subprocess.run(words, env=env, capture_output=True, text=True, timeout=60, check=True)

    lines = listed.stdout.splitlines()
    assert len(lines) == 4
    assert all("build:team:acme:" in line and "[conversation]" in line for line in lines[1:])
    assert "\x1b" not in listed.stdout


def test_a_limit_of_thousands_is_read_whole(operator: Any, many: int) -> None:
    assert len(operator.json("jobs", "list", "--limit", "5000")) == many
    assert len(json.loads(operator.run("jobs", "list", "--json").stdout)) == 100
