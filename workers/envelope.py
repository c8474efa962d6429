"""What a job is kept as: versioned JSON, which a newer or a broken writer may have written.

    {"v": 1, "root": "team:acme", "profile": "default", "job": {"job": "build_beliefs", …}}

The ledger keeps key, type, root, profile and scope beside it, so that a job can be told, listed and
buried without reading its envelope.  A change that this release could not read, a new type of job
included, gets a new version.
"""

import json
from dataclasses import dataclass
from typing import Literal

from pydantic import ValidationError

from tinymemory.errors import InvalidRequestError
from tinymemory.jobs import BackgroundJob
from tinymemory.model import Value, parse
from tinymemory.namespace import Namespace

VERSION = 1


@dataclass(frozen=True, slots=True)
class Envelope:
    """A job that can be run."""

    root: Namespace
    profile: str
    job: BackgroundJob


@dataclass(frozen=True, slots=True)
class NewerEnvelope:
    """Written by a newer release: for a newer worker."""

    version: int

    @property
    def reason(self) -> str:
        """One line, without content."""
        return f"the envelope's version is {self.version}, and this release reads up to {VERSION}"


@dataclass(frozen=True, slots=True)
class UnreadableEnvelope:
    """No release wrote it like this; nothing will come of trying again."""

    reason: str
    """What is wrong with which field: one line, without content."""


def seal(root: Namespace | str, profile: str, job_json: str) -> str:
    """The envelope's text, around a job that is JSON already."""
    return (
        f'{{"v":{VERSION},"root":{json.dumps(str(root))},"profile":{json.dumps(profile)},"job":{job_json}}}'
    )


def open_envelope(text: str | bytes) -> Envelope | NewerEnvelope | UnreadableEnvelope:
    """Read what a job was kept as; never fails, each kind of damage is an answer."""
    try:
        found = _Sealed.model_validate_json(text)
    except (ValidationError, InvalidRequestError):
        return _diagnosed(text)
    return Envelope(found.root, found.profile, found.job)


class _Sealed(Value):
    v: Literal[1]
    root: Namespace
    profile: str
    job: BackgroundJob


def _diagnosed(text: str | bytes) -> NewerEnvelope | UnreadableEnvelope:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return UnreadableEnvelope("the envelope is not JSON")
    version = found.get("v") if isinstance(found, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # JSON
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        return UnreadableEnvelope("the envelope has no version `v`")
    if version > VERSION:
        return NewerEnvelope(version)
    try:
        parse(_Sealed, text, what="the envelope")
    except InvalidRequestError as error:
        return UnreadableEnvelope(error.message)
    raise AssertionError("what was refused once is refused again")
