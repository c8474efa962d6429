"""The embedded engine, and what can be exchanged in it."""

from tinymemory.engines.sqlite.distiller import Distiller, ExtractiveDistiller
from tinymemory.engines.sqlite.embedder import Embedder, HashedEmbedder
from tinymemory.engines.sqlite.engine import SqliteEngine

__all__ = [
    "Distiller",
    "Embedder",
    "ExtractiveDistiller",
    "HashedEmbedder",
    "SqliteEngine",
]
