"""Every command line in the documentation is one that exists, and every command can be found out about."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from terminal import Terminal

from tinymemory.cli import build_app

ROOT = Path(__file__).parents[3]
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
# A line of its own in a code block, or a span within a sentence.
_LINE = re.compile(r"^\s*(?:\$ )?(?:[A-Z_]+=\S+ )*tinymemory ([a-z-].*)$", re.MULTILINE)
_SPAN = re.compile(r"`(?:[A-Z_]+=\S+ )*tinymemory ((?:[a-z-]|\n)[^`]*)`")


def written() -> Iterator[tuple[str, str]]:
    """Each command line with the page it is on."""
    for page in PAGES:
        text = page.read_text()
        for found in (*_LINE.findall(text), *_SPAN.findall(text)):
            yield page.name, " ".join(found.split())


def root_command() -> Any:
    return typer.main.get_command(build_app())


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command with its path, groups too."""
    yield path, command
    for name, one in getattr(command, "commands", {}).items():
        yield from commands(one, (*path, name))


def root_flags() -> set[str]:
    return {flag for parameter in root_command().params for flag in parameter.opts}


def parse(line: str) -> None:
    """Raise unless the command and its options exist and take these values."""
    words = shlex.split(line, comments=True)
    command = root_command()
    while hasattr(command, "commands") and words and words[0] in command.commands:
        command = command.commands[words.pop(0)]
    # A group alone is a way to speak of all its commands.
    if hasattr(command, "commands"):
        assert not words, f"no command {words[0]!r}"
        return
    command.make_context(command.name, words)


@pytest.mark.parametrize(("page", "line"), sorted(set(written())))
def test_a_documented_command_line_is_one_that_exists(page: str, line: str) -> None:
    # Where a page leaves arguments out, it names the command alone.
    if line.startswith("--"):
        assert line in root_flags()
        return
    if " " not in line or line in {"jobs run", "jobs retry", "jobs drop", "jobs show", "jobs erase"}:
        assert tuple(line.split()) in {path for path, _ in commands(root_command())}
        return
    parse(line)


@pytest.mark.parametrize("path", [path for path, _ in commands(root_command())], ids=" ".join)
def test_a_command_and_each_of_its_options_says_what_it_is_for(operator: Any, path: tuple[str, ...]) -> None:
    command = dict(commands(root_command()))[path]
    shown = operator.run(*path, "--help")

    assert shown.exit_code == 0
    assert command.help
    for parameter in command.params:
        if parameter.name != "help":
            assert getattr(parameter, "help", None), f"{parameter.name} says nothing"
    assert "Usage:" in shown.output


@pytest.mark.parametrize("path", [path for path, _ in commands(root_command())], ids=" ".join)
def test_help_fits_forty_columns(
    operator: Any, path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERMINAL_WIDTH", "40")
    shown = operator.run(*path, "--help").output

    assert max(len(line) for line in shown.splitlines()) <= 40


def test_the_same_thing_has_the_same_name_in_every_command() -> None:
    flags: dict[str, set[tuple[str, ...]]] = {}
    for _, command in commands(root_command()):
        for parameter in command.params:
            if parameter.param_type_name == "option" and parameter.name not in ("help",):
                flags.setdefault(max(parameter.opts, key=len), set()).add(tuple(sorted(parameter.opts)))

    assert {name: forms for name, forms in flags.items() if len(forms) > 1} == {}


def test_a_shell_completes_commands_and_options() -> None:
    def completed(words: str) -> list[str]:
        # What the script that `--show-completion` prints asks for at each tab.
        asked = {"_TINYMEMORY_COMPLETE": "complete_bash", "COMP_WORDS": words}
        position = {"COMP_CWORD": str(words.count(" "))}
        done = subprocess.run(
            [Path(sys.executable).with_name("tinymemory")],
            env={**os.environ, **asked, **position},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.stdout.split()

    assert completed("tinymemory jobs re") == ["retry"]
    assert completed("tinymemory health b") == ["beat"]
    assert "--by-root" in completed("tinymemory jobs stats --")


def test_the_completion_script_is_shown_for_the_shell_in_use() -> None:
    with Terminal("--show-completion", env={"SHELL": "/bin/bash"}) as terminal:
        code = terminal.end()

    assert code == 0
    assert "complete" in terminal.text
    assert "tinymemory" in terminal.text
