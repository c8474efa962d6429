"""Answers written to the socket byte for byte: what a broken, hostile or foreign server says."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

CAP = 64 * 1024 * 1024
"""The most bytes of a success body the engine reads."""

_BLOCK = b"x" * 65_536

Body = bytes | AsyncIterable[bytes] | Callable[[], AsyncIterable[bytes]]


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """One answer, sent as it is; the connection is closed behind it.

    Unless a header frames the body, bytes get their `Content-Length` and a stream goes out chunked.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: Body = b""
    """Bytes, an async byte stream (used up by one answer), or what makes one."""
    close: Literal["before", "midway"] | None = None
    """Drop the connection before the first byte, or after half of a body of bytes."""


def json_answer(value: object, status: int = 200) -> RawAnswer:
    """A well-formed answer with this JSON, whatever the route would have said."""
    return RawAnswer(status, {"Content-Type": "application/json"}, json.dumps(value).encode())


def redirect(url: str, status: int = 307) -> RawAnswer:
    """A redirect to `url`."""
    return RawAnswer(status, {"Location": url})


def dripping(gap: float = 0.01) -> RawAnswer:
    """A JSON body that begins well and then brings one blank every `gap` seconds, for ever."""

    async def drops() -> AsyncIterator[bytes]:
        yield b'{"items": ['
        while True:
            await asyncio.sleep(gap)
            yield b" "

    return RawAnswer(200, {"Content-Type": "application/json"}, drops)


async def _blocks(total: int) -> AsyncIterator[bytes]:
    for start in range(0, total, len(_BLOCK)):
        yield _BLOCK[: total - start]


async def _for_ever() -> AsyncIterator[bytes]:
    while True:
        yield _BLOCK


@cache
def _bomb() -> bytes:
    return gzip.compress(bytes(CAP + 1), compresslevel=1)


async def _bomb_stream() -> AsyncIterator[bytes]:
    yield _bomb()


_JSON = {"Content-Type": "application/json"}

truncated_json = RawAnswer(200, _JSON, b'{"success": true, "data": {"items": [{"id": "evt_1", "sco')
not_json = RawAnswer(200, _JSON, b"the memory is fine, thank you")
wrong_types = json_answer(
    {
        "success": True,
        "data": {"items": 7, "scopes": 7, "event_id": 7, "layers": "none", "pack_id": [], "answer": {}},
        "items": 7,
        "scopes": 7,
        "event_id": 7,
        "results": 7,
        "layers": "none",
        "pack_id": [],
        "answer": {},
        "built": "two",
        "version": 3,
        "caller": 7,
    }
)
no_event_id = json_answer(
    {
        "success": True,
        "data": {"status": "captured", "replayed_from_idempotency": False},
        "status": "captured",
        "replayed_from_idempotency": False,
    },
    202,
)
no_envelope = json_answer({"event_id": "evt_1", "items": [], "has_more": False})
no_data = json_answer({"success": True})
success_false = json_answer({"success": False, "error": "refused: NOT_TODAY", "errorCode": "NOT_TODAY"})
too_large = RawAnswer(200, _JSON, lambda: _blocks(CAP + 1))
declared_too_large = RawAnswer(200, {**_JSON, "Content-Length": str(CAP + 1)}, lambda: _blocks(CAP + 1))
endless = RawAnswer(200, _JSON, _for_ever)
gzip_bomb = RawAnswer(200, {**_JSON, "Content-Encoding": "gzip"}, _bomb_stream)
html_502 = RawAnswer(
    502, {"Content-Type": "text/html"}, b"<html><head><title>502 Bad Gateway</title></head></html>"
)
close_before = RawAnswer(close="before")
close_midway = RawAnswer(200, _JSON, b'{"success": true, "data": {}, "items": []}', close="midway")

READY_MADE: Mapping[str, RawAnswer] = {
    "truncated_json": truncated_json,
    "not_json": not_json,
    "wrong_types": wrong_types,
    "no_event_id": no_event_id,
    "no_envelope": no_envelope,
    "no_data": no_data,
    "success_false": success_false,
    "too_large": too_large,
    "declared_too_large": declared_too_large,
    "endless": endless,
    "gzip_bomb": gzip_bomb,
    "html_502": html_502,
    "close": close_before,
    "close_before": close_before,
    "close_midway": close_midway,
}
"""The ready-made answers by name; `Knobs.raw_answers` takes the names too."""
