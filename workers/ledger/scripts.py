"""The Lua scripts, and a call of one: built and parsed here, sent by either kind of client."""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Arg = str | int | float | bytes

_INCLUDE = re.compile(r"^-- include: (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Script:
    """The text of one script, its libraries written in, and the SHA-1 Redis knows it by."""

    name: str
    text: str
    sha: str


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One script with its arguments, and how to read its reply."""

    script: Script
    args: tuple[Arg, ...]
    """The key prefix first: it is KEYS[1], and every key is made from it in the script."""
    parse: Callable[[Any], T]


@cache
def load(name: str, clock: str = "clock") -> Script:
    """Read `lua/<name>.lua`; each `-- include: a b` becomes the text of `lua/lib/a.lua` and `b.lua`.

    `clock` names the library that tells the time.  Production has one, Redis's own (I10); tests put
    one in its place that can be moved, which makes it another script with another SHA.
    """
    folder = files("workers.ledger").joinpath("lua")

    def library(found: re.Match[str]) -> str:
        names = [clock if library == "clock" else library for library in found.group(1).split()]
        return "\n".join(folder.joinpath("lib", f"{name}.lua").read_text("utf-8") for name in names)

    text = _INCLUDE.sub(library, folder.joinpath(f"{name}.lua").read_text("utf-8"))
    return Script(name, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())
