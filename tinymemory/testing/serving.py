"""Plain HTTP/1.1 over asyncio streams: requests in, answers out, faults of the wire included.

The parser is h11, which httpx brings with it, so that serving needs nothing a client does not have.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, unquote

import h11
from pydantic_core import from_json

from tinymemory.testing.raw import RawAnswer
from tinymemory.testing.refusal import FaultError

MAX_BODY_BYTES = 32 * 1024 * 1024
_READ = 65_536


@dataclass(frozen=True)
class Request:
    """One request, its body read whole."""

    method: str
    target: str
    """Path and query, as sent."""
    headers: dict[str, str]
    """Names in lower case; of a repeated one the last."""
    content: bytes
    """Of a body over `MAX_BODY_BYTES` the beginning, one byte too long."""

    @property
    def is_too_large(self) -> bool:
        """Whether the body is over 32 MiB."""
        return len(self.content) > MAX_BODY_BYTES

    @cached_property
    def path(self) -> str:
        """The path, decoded."""
        return unquote(self.target.partition("?")[0])

    @cached_property
    def query(self) -> list[tuple[str, str]]:
        """The parameters, decoded, in the order sent."""
        return parse_qsl(self.target.partition("?")[2], keep_blank_values=True)

    def param(self, name: str) -> str | None:
        """A parameter's last value."""
        return next((value for key, value in reversed(self.query) if key == name), None)

    def json(self) -> dict[str, Any]:
        """The body, where it is a JSON object.

        Raises:
            FaultError: 400 `BAD_JSON`.
        """
        try:
            body = from_json(self.content, allow_inf_nan=False)
        except ValueError as error:
            raise FaultError(400, "BAD_JSON", "the body is not JSON") from error
        if not isinstance(body, dict):
            raise FaultError(400, "BAD_JSON", "the body is not an object")
        return body  # pyright: ignore[reportUnknownVariableType]  # the wire's own JSON


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer of a route, as JSON."""

    status: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


Handler = Callable[[Request], Awaitable[Answer | RawAnswer]]


class Serving:
    """A listening socket, and the connections made to it."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; port 0 takes a free one.  Returns where."""
        self._server = await asyncio.start_server(self._connected, host, port, limit=_READ)
        address: tuple[str, int] = self._server.sockets[0].getsockname()[:2]
        return address

    async def aclose(self) -> None:
        """Stop listening and drop every connection, whatever it waits for."""
        if self._server is not None:
            self._server.close()
        for task in tuple(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await asyncio.sleep(0)  # the aborted sockets close in the loop's next round

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await _Connection(reader, writer, self._handler).run()
            writer.close()
        except BaseException as error:
            writer.transport.abort()
            # The peer left or spoke no HTTP, or the server is closed: nobody is there to be told.
            if not isinstance(error, (ConnectionError, h11.RemoteProtocolError, asyncio.CancelledError)):
                raise
        finally:
            self._connections.discard(task)


class _Connection:
    """One connection: its requests, one after another."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, handler: Handler) -> None:
        self._reader = reader
        self._writer = writer
        self._handler = handler
        self._http = h11.Connection(h11.SERVER)

    async def run(self) -> None:
        while (request := await self._request()) is not None:
            answer = await self._handler(request)
            if isinstance(answer, RawAnswer):
                await self._send_raw(answer)
                return
            await self._send(answer)
            if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
                return
            self._http.start_next_cycle()

    async def _request(self) -> Request | None:
        head: h11.Request | None = None
        content = bytearray()
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                if self._http.they_are_waiting_for_100_continue:
                    await self._write(self._http.send(h11.InformationalResponse(status_code=100, headers=[])))
                self._http.receive_data(await self._reader.read(_READ))
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                content += event.data[: MAX_BODY_BYTES + 1 - len(content)]
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers}
                return Request(head.method.decode(), head.target.decode("latin-1"), headers, bytes(content))
            else:
                return None

    async def _send(self, answer: Answer) -> None:
        body = json.dumps(answer.body, ensure_ascii=False, separators=(",", ":")).encode()
        headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), **answer.headers}
        head = h11.Response(status_code=answer.status, headers=list(headers.items()))
        events = (head, h11.Data(data=body), h11.EndOfMessage())
        await self._write(b"".join(self._http.send(event) or b"" for event in events))

    async def _send_raw(self, raw: RawAnswer) -> None:
        if raw.close == "before":
            return
        names = {name.lower() for name in raw.headers}
        body = raw.body() if callable(raw.body) else raw.body
        framing: dict[str, str] = {}
        if not names & {"content-length", "transfer-encoding"}:
            stream = not isinstance(body, bytes)
            framing = {"Transfer-Encoding": "chunked"} if stream else {"Content-Length": str(len(body))}
        chunked = "Transfer-Encoding" in framing
        await self._write(_head(raw.status, {**raw.headers, **framing, "Connection": "close"}))
        if isinstance(body, bytes) and raw.close == "midway":
            body = body[: len(body) // 2]
        async with contextlib.aclosing(_pieces(body)) as pieces:
            async for piece in pieces:
                await self._write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
        await self._write(b"0\r\n\r\n" if chunked and raw.close is None else b"")
        await self._hang_up()

    async def _hang_up(self) -> None:
        """Close once everything is sent, and wait for it: an abort would take the last bytes along."""
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()

    async def _write(self, data: bytes | None) -> None:
        if data:
            self._writer.write(data)
            await self._writer.drain()


async def _pieces(body: bytes | AsyncIterable[bytes]) -> AsyncGenerator[bytes]:
    if isinstance(body, bytes):
        yield body
        return
    async for piece in body:
        if piece:
            yield piece


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    known = {known.value: known.phrase for known in HTTPStatus}
    lines = [f"HTTP/1.1 {status} {known.get(status, 'Unknown')}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()
