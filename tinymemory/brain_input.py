"""A document on its way into the brain: its text, the source it is filed under, what is known of it."""

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, ValidationInfo, field_validator

from tinymemory.errors import InvalidRequestError
from tinymemory.items import Document, DocumentBody
from tinymemory.layout import BrainSource, MemoryLayout
from tinymemory.meta import MemoryMeta, SourceRef
from tinymemory.model import Value
from tinymemory.text import is_blank


class BrainDocument(Value):
    """A text to file under a source.

    `meta.namespace` and `meta.agent_id` are never used: where a document goes is the layout's to
    say.  Where `meta` names no kind of source, it has the source's own.
    """

    in_order: ClassVar = ("source", "text", "title", "mime", "meta")

    source: BrainSource
    title: str | None = Field(default=None, repr=False)
    text: str = Field(repr=False)  # pyright: ignore[reportGeneralTypeIssues]  # the order of the JSON
    mime: str | None = None
    meta: MemoryMeta = Field(default=MemoryMeta(), validate_default=True)

    if TYPE_CHECKING:

        def __init__(
            self,
            source: BrainSource | str,
            text: str,
            title: str | None = None,
            mime: str | None = None,
            meta: MemoryMeta = ...,
        ) -> None: ...

    @field_validator("meta")
    @classmethod
    def _of_the_source(cls, meta: MemoryMeta, info: ValidationInfo) -> MemoryMeta:
        source: BrainSource | None = info.data.get("source")
        if source is None or ("source" in meta.model_fields_set and "kind" in meta.source.model_fields_set):
            return meta
        return meta.model_copy(update={"source": SourceRef(kind=source.source_kind, id=meta.source.id)})

    def ensure_valid(self) -> None:
        """Raise `InvalidRequestError` when the text is blank, naming the source, or no Unicode."""
        if is_blank(self.text):
            raise InvalidRequestError(f"the document of source `{self.source}` has no text")
        self.ensure_encodable()

    def item(self, layout: MemoryLayout) -> Document:
        """The document as the brain stores it; its `fingerprint()` is the id it will have.

        Raises:
            InvalidRequestError: The document is not valid.
        """
        self.ensure_valid()
        placed: dict[str, Any] = {"namespace": layout.brain(self.source), "agent_id": None}
        return Document(
            title=self.title,
            body=DocumentBody(text=self.text),
            mime=self.mime,
            meta=self.meta.model_copy(update=placed),
        )
