"""Background jobs: slow work as values, which a host runs, queues or stores when it likes.

Their JSON is frozen: a queue may hold what another version, or another language's library, wrote.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from tinymemory.brain_input import BrainDocument
from tinymemory.errors import InvalidRequestError
from tinymemory.model import Value, parse
from tinymemory.namespace import Namespace, Reach
from tinymemory.query import ConsolidateRequest


class BuildBeliefs(Value):
    """Build beliefs from what a reach holds."""

    job: Literal["build_beliefs"] = Field(default="build_beliefs", kw_only=True)
    request: ConsolidateRequest

    if TYPE_CHECKING:

        def __init__(self, request: ConsolidateRequest) -> None: ...

        def __hash__(self) -> int: ...

    @property
    def name(self) -> str:
        """`build_beliefs`."""
        return self.job

    def ensure_valid(self) -> None:
        """Raise `InvalidRequestError` when the request is malformed."""
        self.request.ensure_valid()

    def ensure_within(self, root: Namespace) -> None:
        """Raise `InvalidRequestError` when the reach admits anything outside `root`."""
        reach = self.request.reach
        if not Reach.subtree(root).covers(reach):
            upward = " and above" if reach.inherit else ""
            raise InvalidRequestError(f"the build of {reach.at}{upward} is outside its root {root}")


class IngestBrain(Value):
    """Store documents in the brain, then build the beliefs of their sources."""

    job: Literal["ingest_brain"] = Field(default="ingest_brain", kw_only=True)
    documents: tuple[BrainDocument, ...]

    if TYPE_CHECKING:

        def __init__(self, documents: Sequence[BrainDocument]) -> None: ...

        def __hash__(self) -> int: ...

    @property
    def name(self) -> str:
        """`ingest_brain`."""
        return self.job

    def ensure_valid(self) -> None:
        """Raise `InvalidRequestError` when a document has no text."""
        for document in self.documents:
            document.ensure_valid()

    def ensure_within(self, root: Namespace) -> None:
        """Raise `InvalidRequestError` when a document's metadata names a namespace outside `root`.

        The brain would overwrite it; that somebody asked for it is the fault.
        """
        for document in self.documents:
            named = document.meta.namespace
            if not (named.is_root or named.is_within(root)):
                raise InvalidRequestError(
                    f"a document of source `{document.source}` names {named}, outside its root {root}"
                )


BackgroundJob = Annotated[BuildBeliefs | IngestBrain, Field(discriminator="job")]
"""Any background job, told apart in JSON by `job`."""

_ANY: TypeAdapter[BackgroundJob] = TypeAdapter(BackgroundJob)


def parse_job(data: Any) -> BackgroundJob:
    """Build a job from its JSON (`str` or `bytes`) or from Python data.

    Raises:
        InvalidRequestError: The type is unknown, a key is, or a field does not fit; it is named.
    """
    return parse(_ANY, data, what="background job")
