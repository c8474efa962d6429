"""What happens to a job before the ledger sees it: checked, confined, split, named and sealed."""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from tinymemory.errors import InvalidRequestError
from tinymemory.jobs import BackgroundJob, BuildBeliefs, IngestBrain, parse_job
from tinymemory.layout import MemoryLayout
from tinymemory.meta import ItemKind
from tinymemory.namespace import Namespace, Reach
from tinymemory.query import ConsolidateRequest
from workers.envelope import seal
from workers.identity import (
    WeighedDocument,
    batch_id,
    build_key,
    ingest_key,
    normal_kinds,
    parts_of,
    scope_of,
    weigh,
)
from workers.ledger.jobs import Coverage, NewJob
from workers.routing import BUILD_BELIEFS, INGEST_BRAIN, queue_of
from workers.settings import DEFAULT_PROFILE, PROFILE_NAME, WorkerSettings


class Intake:
    """Turns jobs into what the ledger keeps, or refuses them; needs no Redis."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._build_delay = settings.build_delay
        self._payload_limit = settings.payload_limit
        # A factory of the host's own may know profiles that the settings do not list.
        self._profiles = None if settings.engine_factory else {DEFAULT_PROFILE, *settings.profiles}

    def new_jobs(
        self,
        job: BackgroundJob | Mapping[str, Any],
        *,
        root: Namespace | str,
        profile: str = DEFAULT_PROFILE,
        delay: float | None = None,
    ) -> list[NewJob]:
        """One job as the ledger takes it; an ingest over 100 documents or 1 MiB in several parts.

        Args:
            job: The job, or its JSON as Python data.
            root: The tenant's namespace, which the job may not leave.
            profile: Which engine runs it.
            delay: Seconds before a build may start; None is `build_delay`.  An ingest is due at once.

        Raises:
            InvalidRequestError: Any of them does not fit; the message names the field.
        """
        root = _root(root)
        self._ensure_profile(profile)
        delay = self._build_delay if delay is None else _delay(delay)
        match _job(job):
            case BuildBeliefs(request=request):
                return [_build(root, profile, request.reach, request.kinds, delay)]
            case IngestBrain() as ingest:
                return self._ingest(ingest, root, profile)

    def _ensure_profile(self, profile: str) -> None:
        if self._profiles is None:
            if not isinstance(profile, str) or not PROFILE_NAME.fullmatch(profile):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
                raise InvalidRequestError("`profile` must be 1 to 64 characters of A-Z a-z 0-9 _ -")
        elif profile not in self._profiles:
            known = ", ".join(sorted(self._profiles))
            raise InvalidRequestError(
                f"`profile` {str(profile)[:64]!r} is unknown: add it to `profiles` in the settings, "
                f"which have {known}"
            )

    def _ingest(self, ingest: IngestBrain, root: Namespace, profile: str) -> list[NewJob]:
        if not ingest.documents:
            raise InvalidRequestError("`documents` is empty: there is nothing to ingest")
        ingest.ensure_within(root)
        documents = weigh(ingest.documents, MemoryLayout(root))
        for document in documents:
            self._ensure_fits(document)
        parts = list(parts_of(documents))
        keys = [ingest_key(root, profile, part) for part in parts]
        batch = batch_id(keys) if len(parts) > 1 else ""
        return [
            NewJob(
                key=key,
                queue=queue_of(INGEST_BRAIN, profile),
                profile=profile,
                scope=scope_of(IngestBrain(documents=tuple(one.document for one in part)), root),
                envelope=seal(root, profile, _ingest_json(part)),
                batch=batch,
            )
            for key, part in zip(keys, parts, strict=True)
        ]

    def _ensure_fits(self, document: WeighedDocument) -> None:
        if document.size > self._payload_limit:
            title = document.document.title or f"of source {document.document.source}"
            raise InvalidRequestError(
                f"document `{title}` has {document.size} bytes, above `payload_limit` {self._payload_limit}"
            )


# A host enqueues the build of one scope after each of its turns: what is the same every time is
# made once.  Two thousand are about 2 MB.
@lru_cache(maxsize=2048)
def _build(root: Namespace, profile: str, reach: Reach, kinds: tuple[ItemKind, ...], delay: float) -> NewJob:
    job = BuildBeliefs(request=ConsolidateRequest(reach=reach, kinds=kinds))
    job.ensure_valid()
    job.ensure_within(root)
    normal = normal_kinds(kinds)
    return NewJob(
        key=build_key(root, profile, reach, normal),
        queue=queue_of(BUILD_BELIEFS, profile),
        profile=profile,
        scope=scope_of(job, root),
        envelope=seal(root, profile, _build_json(reach, kinds)),
        delay=delay,
        coverage=Coverage(str(reach.at), reach.inherit, reach.descendants, normal),
    )


def _build_json(reach: Reach, kinds: tuple[ItemKind, ...]) -> str:
    # As the model would write it, ten times as fast: none of it needs escaping.
    named = ",".join(f'"{kind.value}"' for kind in kinds)
    of_kinds = f',"kinds":[{named}]' if kinds else ""
    inherit, descendants = ("true" if flag else "false" for flag in (reach.inherit, reach.descendants))
    return (
        f'{{"job":"{BUILD_BELIEFS}","request":{{"reach":{{"at":"{reach.at}","inherit":{inherit},'
        f'"descendants":{descendants}}}{of_kinds}}}}}'
    )


def _ingest_json(documents: Sequence[WeighedDocument]) -> str:
    return f'{{"job":"{INGEST_BRAIN}","documents":[{",".join(document.json for document in documents)}]}}'


def _job(job: BackgroundJob | Mapping[str, Any]) -> BackgroundJob:
    match job:
        case BuildBeliefs() | IngestBrain():
            return job
        case Mapping():
            return parse_job(job)
        case _:
            raise InvalidRequestError(
                f"`job` must be a BuildBeliefs or an IngestBrain, not {type(job).__name__}"
            )


def _root(root: Namespace | str) -> Namespace:
    try:
        return Namespace.parse(root)
    except InvalidRequestError as error:
        raise InvalidRequestError(f"`root`: {error.message}") from error


def _delay(delay: float) -> float:
    if isinstance(delay, bool) or not isinstance(delay, int | float):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        raise InvalidRequestError(f"`delay` is seconds as a number, not {type(delay).__name__}")
    if not (math.isfinite(delay) and delay >= 0):
        raise InvalidRequestError(f"`delay` is {delay}; it is at least 0 seconds")
    return float(delay)
