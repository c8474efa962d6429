"""Which work is the same, and whose: job keys, labels, confinement, the parts of a large ingest."""

import hashlib
import json
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

from tinymemory.brain_input import BrainDocument
from tinymemory.errors import InvalidRequestError
from tinymemory.jobs import BackgroundJob, BuildBeliefs, IngestBrain
from tinymemory.layout import MemoryLayout
from tinymemory.meta import ItemKind
from tinymemory.namespace import Namespace, Reach
from workers.ledger.jobs import JobKey
from workers.settings import MIB

MAX_PART_DOCUMENTS = 100
MAX_PART_BYTES = MIB
"""UTF-8 bytes of a part's documents as JSON; a single larger document is a part by itself."""
_SHOWN_SOURCES = 8


def job_key(root: Namespace | str, profile: str, job: BackgroundJob) -> JobKey:
    """The key of a job: `build:<root>:<20 hex>` or `ingest:<root>:<20 hex>`.

    The digits are SHA-256's over profile, root and the normalised job: of a build the reach and the
    kinds, sorted, where all three are the same as none; of an ingest its documents in order, as the
    brain would store them.  A new `observed_at`, another order of keys, another Unicode form of the
    same text or another spelling of a number leave the key as it is.

    Raises:
        InvalidRequestError: The root is no namespace, or a document cannot be stored.
    """
    root = Namespace.parse(root)
    match job:
        case BuildBeliefs():
            return build_key(root, profile, job.request.reach, normal_kinds(job.request.kinds))
        case IngestBrain():
            return ingest_key(root, profile, weigh(job.documents, MemoryLayout(root)))
        case _:
            assert_never(job)


def normal_kinds(kinds: Iterable[ItemKind]) -> tuple[str, ...]:
    """Sorted, each once; none when all three are named, which means the same."""
    distinct = sorted({kind.value for kind in kinds})
    return () if len(distinct) == len(ItemKind) else tuple(distinct)


def build_key(root: Namespace, profile: str, reach: Reach, kinds: Sequence[str]) -> JobKey:
    """The key of a build; the kinds are normal already."""
    where = {"at": str(reach.at), "inherit": reach.inherit, "descendants": reach.descendants}
    return _key("build", root, profile, {"reach": where, "kinds": kinds})


def ingest_key(root: Namespace, profile: str, documents: "Sequence[WeighedDocument]") -> JobKey:
    """The key of an ingest, by its documents' fingerprints in order."""
    return _key("ingest", root, profile, {"documents": [document.fingerprint for document in documents]})


def scope_of(job: BackgroundJob, root: Namespace) -> str:
    """What people see of a job: `team:acme/agent:support-01 [conversation]`, `team:acme [notion, pdf]`.

    Of a build the place, with `/**` for what lies below, and the kinds; of an ingest its root and
    its sources.  One line, without a word of content.
    """
    match job:
        case BuildBeliefs():
            reach = job.request.reach
            place = f"{reach.at}{'/**' if reach.descendants else ''}{' and above' if reach.inherit else ''}"
            return _labelled(place, normal_kinds(job.request.kinds))
        case IngestBrain():
            layout = MemoryLayout(root)
            # The id of the source's node: any source has one, in a short and plain alphabet.
            sources = sorted({layout.brain(document.source).segments[-1].id for document in job.documents})
            more = len(sources) - _SHOWN_SOURCES
            return _labelled(str(root), sources[:_SHOWN_SOURCES] + ([f"and {more} more"] if more > 0 else []))
        case _:
            assert_never(job)


@dataclass(frozen=True, slots=True)
class WeighedDocument:
    """A document of an ingest with what is needed to tell, split and keep it."""

    document: BrainDocument
    json: str
    size: int
    """UTF-8 bytes of the JSON."""
    fingerprint: str
    """Of the item the brain would store, its text in Unicode's composed form."""


def weigh(documents: Iterable[BrainDocument], layout: MemoryLayout) -> list[WeighedDocument]:
    """Serialise and fingerprint each document once.

    Raises:
        InvalidRequestError: One of them cannot be stored; it is named by its position.
    """
    return [_weighed(position, document, layout) for position, document in enumerate(documents)]


def parts_of(documents: Sequence[WeighedDocument]) -> Iterator[Sequence[WeighedDocument]]:
    """The documents in order, at most 100 and 1 MiB at a time."""
    start = size = 0
    for end, document in enumerate(documents):
        if end > start and (end - start == MAX_PART_DOCUMENTS or size + document.size > MAX_PART_BYTES):
            yield documents[start:end]
            start, size = end, 0
        size += document.size
    yield documents[start:]


def batch_id(keys: Iterable[str]) -> str:
    """What the parts of one ingest have in common; the same ingest again has the same."""
    return hashlib.sha256("\n".join(keys).encode()).hexdigest()[:20]


def _key(kind: str, root: Namespace, profile: str, job: dict[str, Any]) -> JobKey:
    identity = {"job": job, "profile": unicodedata.normalize("NFC", profile), "root": str(root)}
    canonical = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return JobKey(f"{kind}:{root}:{hashlib.sha256(canonical.encode()).hexdigest()[:20]}")


def _weighed(position: int, document: BrainDocument, layout: MemoryLayout) -> WeighedDocument:
    try:
        document.ensure_encodable()
        json_ = document.model_dump_json()
        composed = document
        if not unicodedata.is_normalized("NFC", json_):
            composed = BrainDocument.model_validate_json(unicodedata.normalize("NFC", json_))
        item = composed.item(layout)
        item.validate_storable()
    except InvalidRequestError as error:
        raise InvalidRequestError(f"`documents[{position}]`: {error.message}") from error
    return WeighedDocument(document, json_, len(json_.encode()), item.fingerprint())


def _labelled(place: str, labels: Sequence[str]) -> str:
    return f"{place} [{', '.join(labels)}]" if labels else place
