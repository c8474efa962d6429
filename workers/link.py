"""A host's way to the ledger: clients for each process and each event loop, and no waiting in vain.

An agent's turn pays for every millisecond here.  A call has 200 ms in all; one that runs out of them
opens the circuit, and from then on calls fail at once until a thread has found Redis back.
"""

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from redis.exceptions import AuthenticationError, NoPermissionError, RedisError

from tinymemory.errors import ConfigError, TinyMemoryError, UnavailableError
from workers.circuit import Circuit
from workers.connection import aclose_redis, async_redis, close_redis, sync_redis
from workers.deadline import Deadline
from workers.ledger import Call, Enqueued, Ledger, LedgerOptions, NewJob, SyncLedger
from workers.ledger.transitions import Transitions
from workers.redaction import Redactor
from workers.settings import KIB, MIB, WorkerSettings

T = TypeVar("T")

PATIENCE = 0.2
"""Seconds for one call, so that a dead Redis costs under 250 ms with the spool's fsync included."""
BULK_BYTES = 256 * KIB
"""From here on a payload's own way takes longer than that."""
BULK_RATE = 4 * MIB
"""Bytes a second that even a slow line carries."""
BULK_PATIENCE = 5.0
MAX_CALLS = 16
"""Calls of one loop that are on their way at once: Redis does one at a time anyway."""

_inherited: list[Any] = []
"""Clients of a parent process, kept for ever: freeing one would unregister the parent's sockets."""


@dataclass(frozen=True, slots=True)
class _LoopSide:
    """What belongs to one event loop."""

    ledger: Ledger
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_CALLS))


class Link:
    """The clients of one process.  Opens no connection before the first call."""

    def __init__(self, settings: WorkerSettings, *, back: Callable[[], object]) -> None:
        self.pid = os.getpid()
        self._url = settings.redis_url
        self._redactor = Redactor.from_settings(settings)
        self.calls = Transitions(LedgerOptions.from_settings(settings))
        self._sync = SyncLedger(sync_redis(self._url, timeout=PATIENCE), calls=self.calls)
        self._patient = SyncLedger(sync_redis(self._url, timeout=BULK_PATIENCE), calls=self.calls)
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopSide] = WeakKeyDictionary()
        self.circuit = Circuit(self._write_nothing, closed=back)

    # -- with a loop

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Hand jobs to the ledger.

        Raises:
            UnavailableError: Redis is away, or known to be.
            ConfigError: It refuses the credential.
        """
        patience = PATIENCE
        if (weight := _weight(jobs)) > BULK_BYTES:
            # A dead Redis must not be found out by way of the long wait.
            await self.run(self.calls.enqueue(()))
            patience += weight / BULK_RATE
        return await self.run(self.calls.enqueue(jobs), patience)

    async def run(self, call: Call[T], patience: float = PATIENCE) -> T:
        """Send any other call of the ledger; errors as `enqueue`."""
        side = self._side()
        async with side.slots:
            self._ensure_closed()
            started = time.monotonic()
            try:
                async with Deadline(patience):
                    return await side.ledger.run(call)
            except (RedisError, OSError) as error:
                raise self._outage(error, started) from error

    # -- without one

    def enqueue_sync(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """As `enqueue`."""
        if _weight(jobs) <= BULK_BYTES:
            return self.run_sync(self.calls.enqueue(jobs))
        self.run_sync(self.calls.enqueue(()))
        return self._run_on(self._patient, self.calls.enqueue(jobs))

    def run_sync(self, call: Call[T]) -> T:
        """As `run`."""
        return self._run_on(self._sync, call)

    def send_patiently(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """For a thread of our own, which nobody waits for; an open circuit is no obstacle.

        Raises:
            RedisError: What the client raised.
        """
        return self._patient.enqueue(jobs)

    def _run_on(self, ledger: SyncLedger, call: Call[T]) -> T:
        self._ensure_closed()
        started = time.monotonic()
        try:
            return ledger.run(call)
        except (RedisError, OSError) as error:
            raise self._outage(error, started) from error

    # -- the end

    async def aclose(self) -> None:
        """Close what the running loop and the process hold."""
        side = self._loops.pop(asyncio.get_running_loop(), None)
        if side is not None:
            await aclose_redis(side.ledger.client)
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """Close the clients without a loop."""
        self.circuit.end()
        for ledger in (self._sync, self._patient):
            close_redis(ledger.client)

    def abandon(self) -> None:
        """In a forked child: let go of the parent's connections, without a word to the server."""
        for side in self._loops.values():
            _inherited.append(side.ledger.client)
            _forget_sockets(side.ledger.client.connection_pool)
        # These know that they were forked, and say nothing to the server.
        for ledger in (self._sync, self._patient):
            close_redis(ledger.client)

    def _side(self) -> _LoopSide:
        loop = asyncio.get_running_loop()
        side = self._loops.get(loop)
        if side is None:
            # No timeouts of its own: one for the whole call costs less, and bounds it better.
            client = async_redis(self._url, timeout=None)
            side = self._loops[loop] = _LoopSide(Ledger(client, calls=self.calls))
        return side

    def _ensure_closed(self) -> None:
        if self.circuit.is_open:
            raise UnavailableError("redis is away: calls fail at once until it is back")

    def _outage(self, error: RedisError | OSError, started: float) -> TinyMemoryError:
        self.circuit.failed(time.monotonic() - started)
        # Before it knows who is there, Redis refuses long commands in words of their own.
        if isinstance(error, AuthenticationError | NoPermissionError) or "unauthenticated" in str(error):
            return ConfigError("redis refuses the credential in `redis_url`")
        if isinstance(error, TimeoutError) or "Timeout" in type(error).__name__:
            return UnavailableError("redis did not answer in time")
        return UnavailableError(f"redis: {self._redactor.error(error).message}")

    def _write_nothing(self) -> object:
        return self._sync.run(self.calls.enqueue(()))


def _weight(jobs: Sequence[NewJob]) -> int:
    return sum(len(job.envelope) for job in jobs)


def _forget_sockets(pool: Any) -> None:
    # Pointing the descriptor elsewhere closes this process's end alone.  Closing the connection
    # would go through the event loop, whose epoll the parent is listening on.  redis-py has no
    # public way to its sockets.
    nowhere = os.open(os.devnull, os.O_RDWR)
    for connection in [
        *pool._available_connections,
        *pool._in_use_connections,
    ]:
        writer = connection._writer
        if writer is not None:
            os.dup2(nowhere, writer.get_extra_info("socket").fileno(), inheritable=False)
    os.close(nowhere)
