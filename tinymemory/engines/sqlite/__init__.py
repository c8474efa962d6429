"""The embedded engine, and what can be exchanged in it."""

from tinymemory.engines.sqlite.distiller import Distiller, Draft, ExtractiveDistiller, Material, Source
from tinymemory.engines.sqlite.embedder import Embedder, HashedEmbedder
from tinymemory.engines.sqlite.engine import SqliteEngine

__all__ = [
    "Distiller",
    "Draft",
    "Embedder",
    "ExtractiveDistiller",
    "HashedEmbedder",
    "Material",
    "Source",
    "SqliteEngine",
]
