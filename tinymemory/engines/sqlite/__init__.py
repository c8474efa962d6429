"""The embedded engine, and what can be exchanged in it."""

from tinymemory.engines.sqlite.distiller import Distiller, Draft, ExtractiveDistiller, Material, Source
from tinymemory.engines.sqlite.embedder import Embedder, HashedEmbedder
from tinymemory.engines.sqlite.engine import SqliteEngine
from tinymemory.engines.sqlite.openai import ChatDistiller, OpenAiEmbedder

__all__ = [
    "ChatDistiller",
    "Distiller",
    "Draft",
    "Embedder",
    "ExtractiveDistiller",
    "HashedEmbedder",
    "Material",
    "OpenAiEmbedder",
    "Source",
    "SqliteEngine",
]
