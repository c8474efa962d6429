"""SHA-256 digests, as labels, ids and keys shorten them."""

import hashlib


def hex_digest(text: str, length: int) -> str:
    """The first `length` lowercase hex digits of SHA-256 over the text's UTF-8 bytes."""
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def path_digests(path: str) -> tuple[str, ...]:
    """A digest of 40 digits for each prefix of a path that ends before a `/`, and one for the whole.

    A filter by any of its folders matches one of them.  Of `/a/b.txt`: the empty text, `/a`, `/a/b.txt`.
    """
    ends = [index for index, character in enumerate(path) if character == "/"]
    return tuple(hex_digest(path[:end], 40) for end in (*ends, len(path)))
