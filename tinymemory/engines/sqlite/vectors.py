"""Vectors as they are kept and compared: bits to find what may be near, bytes to tell how near.

Comparing bits costs a hundredth of comparing numbers, so the bits of everything choose a short list,
and only that is compared exactly.
"""

import math
from array import array
from collections.abc import Iterable, Sequence
from operator import mul

_DIGITS = bytes((ord("0"), ord("1"))).ljust(256)


def signature(vector: Sequence[float]) -> bytes:
    """One bit a component: whether it is above the vector's mean."""
    mean = float(sum(vector) / len(vector))
    # As floats: an embedder's numbers may be of a class that a float cannot be compared with by itself.
    bits = bytes(map(mean.__lt__, map(float, vector))).translate(_DIGITS)
    return int(bits, 2).to_bytes((len(bits) + 7) // 8, "big")


def quantised(vector: Sequence[float]) -> tuple[bytes, float]:
    """One signed byte a component, the largest being 127, and the length of what is kept."""
    scale = 127 / (max(map(abs, vector)) or 1.0)
    numbers = [round(component * scale) for component in vector]
    return array("b", numbers).tobytes(), math.hypot(*numbers)


def nearest(wanted: bytes, candidates: Iterable[tuple[int, bytes]], limit: int) -> list[int]:
    """The keys of the candidates whose signatures differ least from the wanted one."""
    bits = int.from_bytes(wanted, "big")
    keyed = [((int.from_bytes(found, "big") ^ bits).bit_count(), key) for key, found in candidates]
    if len(keyed) > limit:
        keyed.sort()
    return [key for _, key in keyed[:limit]]


def product(wanted: Sequence[float], kept: bytes) -> float:
    """The dot product with a kept vector."""
    return sum(map(mul, wanted, array("b", kept)))


def unit(vector: Sequence[float]) -> list[float]:
    """The vector with length 1; one of zeros stays."""
    size = math.sqrt(sum(map(mul, vector, vector)))
    return [component / size for component in vector] if size else list(vector)
