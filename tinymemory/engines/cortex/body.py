"""Reading what a server answers: bounded while it streams, decoded, and turned into JSON."""

import asyncio
import json
import re
import zlib
from typing import Any, Protocol

import httpx
from pydantic_core import from_json

from tinymemory.errors import EngineError, UnavailableError

BODY_CAP = 64 * 1024 * 1024
"""The most bytes of a successful answer, after decoding."""
ERROR_BODY_CAP = 64 * 1024
"""How much of a failure's body is read; more is cut off."""

# httpx passes on what TLS says of a record that was tampered with: an `OSError` of its own.
_BROKEN_OFF = (httpx.TransportError, httpx.StreamError, OSError)

_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32


class _Decoder(Protocol):
    def feed(self, data: bytes, room: int) -> bytes:
        """Decoded bytes: all of `data`'s, unless that is more than `room`."""
        ...

    def is_whole(self) -> bool:
        """Whether nothing is missing when the stream ends here."""
        ...


class _Identity:
    def feed(self, data: bytes, room: int) -> bytes:
        return data

    def is_whole(self) -> bool:
        return True


class _Gzip:
    # httpx decodes a chunk whole, and encodings named twice multiply: a few bytes would fill the
    # memory before any of them could be counted.  So its raw stream is read, and unpacked in here.

    def __init__(self) -> None:
        self._member = zlib.decompressobj(_GZIP_OR_ZLIB)
        self._started = False

    def feed(self, data: bytes, room: int) -> bytes:
        decoded = bytearray()
        while data and len(decoded) <= room:
            if self._member.eof:
                self._member = zlib.decompressobj(_GZIP_OR_ZLIB)
            self._started = True
            decoded += self._member.decompress(data, room + 1 - len(decoded))
            data = self._member.unconsumed_tail or self._member.unused_data
        return bytes(decoded)

    def is_whole(self) -> bool:
        return self._member.eof or not self._started


async def read_success(response: httpx.Response) -> bytes:
    """The whole body of a 2xx.

    Raises:
        EngineError: It is over `BODY_CAP`, or encoded in a way that was not asked for.
        UnavailableError: It was cut off.
    """
    declared = response.headers.get("content-length", "")
    if declared.isdecimal() and declared.isascii() and (len(declared) > 12 or int(declared) > BODY_CAP):
        raise _too_large()
    if response.is_stream_consumed:  # by a transport that answers from memory, as test doubles do
        return _within_cap(response.content)
    decoder = _decoder(response)
    body = bytearray()
    try:
        async for chunk in response.aiter_raw():
            decoded = decoder.feed(chunk, BODY_CAP - len(body))
            _within_cap(decoded, beside=len(body))
            body += decoded
    except zlib.error as error:
        raise EngineError("the answer's body is not the gzip it says it is") from error
    except _BROKEN_OFF as error:
        raise _cut_off() from error
    if not decoder.is_whole():
        raise _cut_off()
    return bytes(body)


async def read_failure(response: httpx.Response, deadline: float | None) -> bytes:
    """What can be had of a failure's body until a loop time, at most `ERROR_BODY_CAP` bytes."""
    if response.is_stream_consumed:
        return response.content[:ERROR_BODY_CAP]
    body = bytearray()
    try:
        decoder = _decoder(response)
        async with asyncio.timeout_at(deadline):
            async for chunk in response.aiter_raw():
                body += decoder.feed(chunk, ERROR_BODY_CAP - len(body))
                if len(body) > ERROR_BODY_CAP:
                    break
    except (*_BROKEN_OFF, EngineError, zlib.error):
        pass  # the status says what happened; the body would only have added words
    return bytes(body[:ERROR_BODY_CAP])


def parse_json(text: bytes | str) -> Any:
    """What a server's JSON says.  A lone surrogate, which no text of ours can hold, is replaced.

    Raises:
        ValueError: It is not JSON.
    """
    raw = text if isinstance(text, bytes) else text.encode("utf-8", "replace")
    try:
        # In a third of the time; it refuses some of what is read below, and never reads it otherwise.
        return from_json(raw, allow_inf_nan=False)
    except ValueError:
        pass
    try:
        value = json.loads(raw.decode("utf-8-sig"), parse_constant=_not_json)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return _without_surrogates(value) if _SURROGATE_ESCAPE.search(raw) else value


def _not_json(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _without_surrogates(value: Any) -> Any:
    match value:
        case str():
            return _SURROGATE.sub("\ufffd", value)
        case list():
            return [_without_surrogates(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
        case dict():
            return {
                _without_surrogates(key): _without_surrogates(item)
                for key, item in value.items()  # pyright: ignore[reportUnknownVariableType]
            }
        case _:
            return value


def _decoder(response: httpx.Response) -> _Decoder:
    encoding = response.headers.get("content-encoding", "").strip().lower()
    match encoding:
        case "" | "identity":
            return _Identity()
        case "gzip" | "x-gzip" | "deflate":
            return _Gzip()
        case _:
            raise EngineError("the answer's body is encoded in a way that was not asked for")


def _within_cap(data: bytes, *, beside: int = 0) -> bytes:
    if len(data) + beside > BODY_CAP:
        raise _too_large()
    return data


def _too_large() -> EngineError:
    return EngineError(f"the answer's body is over {BODY_CAP // 1024 // 1024} MiB")


def _cut_off() -> UnavailableError:
    return UnavailableError("the answer's body was cut off")
