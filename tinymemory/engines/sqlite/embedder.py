"""Embedders: texts as vectors that lie near one another when the texts mean alike."""

import asyncio
import hashlib
import math
import sys
from array import array
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol, runtime_checkable

from tinymemory.engines.sqlite.words import STOP_WORDS, words


@runtime_checkable
class Embedder(Protocol):
    """What turns texts into vectors.

    It may also have `near`, the least cosine of a hit (0 without); `weight`, what its ranking counts
    beside that of the words in a hybrid fetch (1 without); and `aclose()`, which the engine that it
    was given to calls when it closes.
    """

    @property
    def id(self) -> str:
        """Names the embedder and its model: vectors of different ids are never compared."""
        ...

    @property
    def dimensions(self) -> int:
        """The length of its vectors."""
        ...

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector for each text, in order."""
        ...


class HashedEmbedder:
    """A local embedder without a model: hashed words and their character n-grams.

    Texts are near when they share words, or parts of words: inflections, compounds and misspellings
    meet.  Nothing is downloaded, and every process computes the same.
    """

    dimensions: int = 512
    id: str = "tinymemory-hashed-1"
    near: float = 0.1
    # It knows no more than letters, and words know letters better: measured on conversations, a weight
    # of 0.4 costs a tenth of what words alone find, and 0.1 nothing.
    weight: float = 0.1

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Vectors of length 1, or of zeros for a text without a word."""
        return await asyncio.to_thread(lambda: [_embedded(text) for text in texts])


_LANES = HashedEmbedder.dimensions
_SPREAD = 8
# Added to each component of a word, so that no lane is ever negative and borrows from its neighbour.
_BIAS = 1 << 12
# So many characters hold at most half as many words, and no lane overflows its 32 bits.
_LONGEST = 100_000


def _embedded(text: str) -> list[float]:
    counts = Counter(words(text[:_LONGEST]))
    # A vector is one large integer of 32-bit lanes, so that adding two is one addition and not 256.
    by_weight: defaultdict[int, int] = defaultdict(int)
    weight = 0
    for word, count in counts.items():
        times = _weight(word, count)
        by_weight[times] += _lanes(word)
        weight += times
    total = sum(times * lanes for times, lanes in by_weight.items())
    lanes = array("I", total.to_bytes(_LANES * 4, sys.byteorder))
    bias = weight * _BIAS
    components = [lane - bias for lane in lanes]
    length = math.hypot(*components)
    return [component / length for component in components] if length else [0.0] * _LANES


@lru_cache(maxsize=50_000)
def _weight(word: str, count: int) -> int:
    # Without a corpus at hand, length stands for rarity: measured, it finds a fifth more.
    if word.partition("'")[0] in STOP_WORDS:
        return 1
    return min(64, round(6 * math.sqrt(min(len(word), 10) * math.sqrt(count))))


@lru_cache(maxsize=50_000)
def _lanes(word: str) -> int:
    """A word's vector in lanes: the sum of its features, each spread over a few signed components."""
    components = [_BIAS] * _LANES
    grams = _grams(word)
    share = round(60 / math.sqrt(len(grams)))
    for feature, weight in [(word, 30), *((gram, share) for gram in grams)]:
        digest = hashlib.blake2b(feature.encode(), digest_size=2 * _SPREAD).digest()
        for at in range(0, 2 * _SPREAD, 2):
            components[digest[at] | (digest[at + 1] & 2) << 7] += weight if digest[at + 1] & 1 else -weight
    return int.from_bytes(array("I", components).tobytes(), sys.byteorder)


def _grams(word: str) -> list[str]:
    bounded = f"<{word[:40]}>"
    short = word if not word.isascii() else ""  # a character of Chinese says as much as a syllable
    return [*short, *(bounded[at : at + size] for size in (3, 4, 5) for at in range(len(bounded) - size + 1))]
