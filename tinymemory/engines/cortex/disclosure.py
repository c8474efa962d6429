"""What leaves the machine of an item's metadata, and the digests that go in place of the rest.

A folder, a home directory or an absolute path says who works on what; a channel's id may be a phone
number.  None of them is sent.  Filters by them still work, because the envelope carries digests.
"""

import re
from dataclasses import dataclass

from tinymemory.engines.cortex.digest import hex_digest, path_digests
from tinymemory.meta import MemoryMeta
from tinymemory.redaction import redacted

_ABSOLUTE = re.compile(r"[/~\\]|[A-Za-z]:")
_SEPARATORS = re.compile(r"[/\\]")


@dataclass(frozen=True, slots=True)
class Disclosed:
    """Metadata as it is sent, and digests of what was kept back."""

    meta: MemoryMeta
    workspace: str | None
    """A digest, when the workspace was left out."""
    file_path: tuple[str, ...] | None
    folder: tuple[str, ...] | None


def disclosed(meta: MemoryMeta) -> Disclosed:
    """The part of an item's metadata that may be sent."""
    is_local = meta.workspace is not None and _ABSOLUTE.match(meta.workspace) is not None
    source = meta.source
    return Disclosed(
        meta=meta.model_copy(
            update={
                "workspace": None if is_local else meta.workspace,
                "folder": None,
                "file_path": _SEPARATORS.split(meta.file_path or "")[-1] or None,
                "thread_id": meta.thread_id and redacted(meta.thread_id),
                "agent_id": meta.agent_id and redacted(meta.agent_id),
                "source": source.model_copy(update={"id": source.id and redacted(source.id)}),
                "observed_actor": None,
            }
        ),
        workspace=hex_digest(meta.workspace, 40) if is_local and meta.workspace else None,
        file_path=None if meta.file_path is None else path_digests(meta.file_path),
        folder=None if meta.folder is None else path_digests(meta.folder),
    )
