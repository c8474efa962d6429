"""A filter as it applies to envelopes, whose paths may be digests."""

from tinymemory.engines.cortex.digest import hex_digest
from tinymemory.engines.cortex.envelope import Envelope
from tinymemory.engines.cortex.labels import narrowing_labels
from tinymemory.meta import MetaFilter, is_path_within


class Selection:
    """What a filter selects of the envelopes read, and the labels that save reading others."""

    def __init__(self, wanted: MetaFilter) -> None:
        self.labels = narrowing_labels(wanted)
        self._wanted = wanted
        # These three are held against digests; the rest against the metadata as it stands.
        self._rest = wanted.model_copy(update={"workspace": None, "file_path": None, "folder": None})
        self._is_everything = wanted.is_empty

    def admits(self, envelope: Envelope) -> bool:
        """Whether the item this envelope belongs to is selected."""
        if self._is_everything:
            return True
        meta = envelope.meta
        return (
            self._rest.matches(envelope.kind, meta)
            and _is_workspace(self._wanted.workspace, envelope.ws, meta.workspace)
            and _is_path(self._wanted.file_path, envelope.fp, meta.file_path)
            and _is_path(self._wanted.folder, envelope.fd, meta.folder)
        )


def _is_workspace(wanted: str | None, digest: str | None, kept: str | None) -> bool:
    if wanted is None:
        return True
    return hex_digest(wanted, 40) == digest if digest is not None else wanted == kept


def _is_path(wanted: str | None, digests: tuple[str, ...] | None, kept: str | None) -> bool:
    if wanted is None:
        return True
    spellings = {hex_digest(wanted, 40), hex_digest(wanted.rstrip("/"), 40)}
    return not spellings.isdisjoint(digests or ()) or is_path_within(kept, wanted)
