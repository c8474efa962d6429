"""Vectors as they are kept and compared: bits to find what may be near, bytes to tell how near.

Comparing bits costs a hundredth of comparing numbers, so the bits of everything choose a short list,
and only that is compared exactly.
"""

import math
from array import array
from collections.abc import Iterable, Sequence
from operator import mul


def signature(vector: Sequence[float]) -> bytes:
    """One bit a component: whether it is above the vector's mean."""
    mean = sum(vector) / len(vector)
    bits = "".join("1" if component > mean else "0" for component in vector)
    return int(bits, 2).to_bytes((len(bits) + 7) // 8, "big")


def components(vector: Sequence[float]) -> bytes:
    """One signed byte a component, the largest being 127."""
    largest = max(map(abs, vector)) or 1.0
    return array("b", [round(127 * component / largest) for component in vector]).tobytes()


def nearest(wanted: bytes, candidates: Iterable[tuple[int, bytes]], limit: int) -> list[int]:
    """The keys of the candidates whose signatures differ least from the wanted one."""
    bits = int.from_bytes(wanted, "big")
    keyed = [((int.from_bytes(found, "big") ^ bits).bit_count(), key) for key, found in candidates]
    if len(keyed) > limit:
        keyed.sort()
    return [key for _, key in keyed[:limit]]


def cosine(wanted: Sequence[float], found: bytes) -> float:
    """How near a kept vector is to a vector of length 1; 0 for a vector of zeros."""
    kept = array("b", found)
    length = math.sqrt(sum(map(mul, kept, kept)))
    return sum(map(mul, wanted, kept)) / length if length else 0.0


def unit(vector: Sequence[float]) -> list[float]:
    """The vector with length 1; one of zeros stays."""
    length = math.sqrt(sum(map(mul, vector, vector)))
    return [component / length for component in vector] if length else list(vector)
