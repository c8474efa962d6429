"""HTTP exchanges with a memory server, and the attempts one call is worth.

Everything a server can answer becomes data or a library error here: nothing above knows HTTP.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import httpx

from tinymemory.engines.cortex.actor import Actor, Known, caller
from tinymemory.engines.cortex.body import parse_json, read_failure, read_success
from tinymemory.engines.cortex.call import Call
from tinymemory.engines.cortex.credential import Credential
from tinymemory.engines.cortex.endpoint import Endpoint
from tinymemory.engines.cortex.failures import STATE_CHANGED, Refusal, no_response, shown_cause
from tinymemory.engines.cortex.headers import default_headers
from tinymemory.engines.cortex.pause import Pause, seconds_asked_for
from tinymemory.engines.cortex.pool import Pool
from tinymemory.engines.cortex.surface import Surface
from tinymemory.engines.cortex.timing import Timing
from tinymemory.errors import EngineError, TinyMemoryError, UnavailableError

READ_ATTEMPTS = 3
STATE_CHANGE_ATTEMPTS = 6
"""Of a read, while the server says that its authorization state is changing."""

# In lower case, as default headers are, so that a host may put its own in place of the first two.
_HEADERS = {"user-agent": "tinymemory", "accept": "application/json", "accept-encoding": "gzip"}
# What httpx and the stack below it raise when an exchange comes to nothing.
_FAULTS = (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, RuntimeError, ValueError)


@dataclass(frozen=True, slots=True)
class _Outcome:
    status: int | None = None
    """None: no answer came."""
    data: Any = None
    error: TinyMemoryError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transport:
    """Sends calls.  What `with_headers` makes shares connections, actor and pause."""

    surface: Surface
    endpoint: Endpoint
    credential: Credential
    timing: Timing
    pool: Pool
    pause: Pause
    actor: Actor = field(default_factory=Actor)
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def with_headers(self, headers: Mapping[str, str]) -> Self:
        """The same transport, sending these headers on every request in place of any set before."""
        return replace(self, headers=default_headers(headers))

    async def call(self, call: Call) -> Any:
        """What the server answers: its JSON, on the hosted wire out of its envelope.

        Raises:
            TinyMemoryError: No answer, a refusal, or something unreadable.  Of a repeatable call
                it is the last failure, once the attempts are used up.
        """
        attempt = 1
        while True:
            try:
                return await self._attempt(call)
            except UnavailableError as error:
                # Read from each failure anew: a state change on attempt 2 raises the limit, and a
                # plain outage on attempt 4 is over it.
                limit = STATE_CHANGE_ATTEMPTS if error.code == STATE_CHANGED else READ_ATTEMPTS
                if not call.is_repeatable or attempt >= limit:
                    raise
            await self.timing.sleep(self.timing.backoff * 2 ** (attempt - 1))
            attempt += 1

    async def _attempt(self, call: Call) -> Any:
        self.pool.ensure_open()  # a closed engine does not ask for its actor either
        actor = await self.actor.name(self._ask_whoami) if self.surface.whoami else None
        outcome = await self._exchange(call, {"X-Cortex-Actor": actor} if actor else {})
        if outcome.status in (401, 403):
            self.actor.doubt()
        if outcome.error is not None:
            raise outcome.error
        return outcome.data

    async def _ask_whoami(self) -> Known | None:
        assert self.surface.whoami is not None
        try:
            outcome = await self._exchange(Call(method="GET", route=self.surface.whoami), {})
        except TinyMemoryError:
            return None  # of this the call itself will fail, and say so
        match outcome.status:
            case int(status) if 200 <= status < 300:
                return caller(outcome.data)
            case 404 | 405:
                return Known(None)
            case _:
                return None

    async def _exchange(self, call: Call, headers: Mapping[str, str]) -> _Outcome:
        url, content = call.url(self.endpoint), call.content()
        await self.pause.over()
        token = await self.credential.token()
        sent = self._headers(call, {**headers, "Authorization": f"Bearer {token}"})
        try:
            async with asyncio.timeout(self.timing.request_timeout) as deadline:
                response = await self.pool.send(call.method, url, sent, content)
        except _FAULTS as fault:
            self.pool.ensure_open()  # says so when the engine was closed meanwhile
            return _Outcome(error=self._no_response(fault, token))
        try:
            return await self._outcome(call, response, token, deadline.when())
        finally:
            await response.aclose()

    def _headers(self, call: Call, headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
        sent = {**_HEADERS, **self.headers, **headers}
        if call.body is not None:
            sent["Content-Type"] = "application/json"
        if call.claim is not None:
            sent["Idempotency-Key"] = call.claim
        # As bytes, because httpx would encode a value as ASCII.
        return [(name.encode("ascii"), value.encode("latin-1")) for name, value in sent.items()]

    async def _outcome(
        self, call: Call, response: httpx.Response, token: str, deadline: float | None
    ) -> _Outcome:
        if not response.is_success:
            return self._refused(call, response, await read_failure(response, deadline), token)
        try:
            async with asyncio.timeout_at(deadline):
                body = await read_success(response)
            data = _parsed(body, is_hosted=self.surface.is_hosted)
        except TimeoutError as fault:
            return _Outcome(response.status_code, error=self._no_response(fault, token))
        except TinyMemoryError as fault:
            error = type(fault)(f"{call.route} at {self.endpoint.host}: {fault.message}")
            error.__cause__ = shown_cause(fault.__cause__, token)
            return _Outcome(response.status_code, error=error)
        if not self.surface.is_hosted:
            return _Outcome(response.status_code, data)
        if data["success"]:
            return _Outcome(response.status_code, data["data"])
        return self._refused(call, response, body, token)

    def _refused(self, call: Call, response: httpx.Response, body: bytes, token: str) -> _Outcome:
        seconds = seconds_asked_for(response.headers) if response.status_code in (429, 503) else None
        if response.status_code == 429:
            self.pause.ask(seconds)
        refusal = Refusal(
            surface=self.surface,
            route=call.route,
            host=self.endpoint.host,
            status=response.status_code,
            body=body,
            token=token,
            retry_after=seconds,
        )
        return _Outcome(response.status_code, error=refusal.error())

    def _no_response(self, fault: Exception, token: str) -> TinyMemoryError:
        error = no_response(fault, self.endpoint.host, token)
        error.__cause__ = shown_cause(fault, token)
        return error


def _parsed(body: bytes, *, is_hosted: bool) -> Any:
    """The JSON of a 2xx; on the hosted wire an envelope that has either failed or holds `data`."""
    try:
        answer = parse_json(body) if body or is_hosted else None
    except ValueError as error:
        raise EngineError("the answer is not JSON") from error
    if is_hosted:
        match answer:
            case {"success": False} | {"success": True, "data": _}:
                pass
            case {"success": True}:
                raise EngineError("the answer's envelope holds no data")
            case _:
                raise EngineError("the answer is in no envelope")
    return answer
