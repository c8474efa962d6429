"""Who is alive: what each worker and beat last said of itself, for health checks and the doctor."""

import json
import os
import socket
from dataclasses import asdict, dataclass
from typing import Any

from redis import Redis

PULSE_SECONDS = 5.0
"""How often a worker and its loops say that they are alive."""
FORGET_SECONDS = 86_400.0
"""How long one that fell silent is remembered, so that it can be told to be missing."""


@dataclass(frozen=True, slots=True)
class Vital:
    """What one process said of itself, and how long ago by Redis's clock."""

    kind: str
    """`worker`, `beat`, or `loop`: what runs a worker's jobs, one in each of its processes."""
    name: str
    host: str
    pid: int
    age_s: float
    queues: tuple[str, ...] = ()
    """What a worker takes."""
    stuck: bool = False
    """A worker with free slots that takes nothing while messages wait for it."""
    leads: bool = False
    """A beat that asks for the sweeps; others stand by."""


class Vitals:
    """The signs of life in the ledger's Redis: a hash, a field for each process."""

    def __init__(self, client: Redis, *, key_prefix: str) -> None:
        self._client = client
        self._key = f"{key_prefix}alive"

    def beat_ticked(self, *, leads: bool) -> None:
        """A beat of this process is alive."""
        self._say("beat", _beat_name(), leads=leads)

    def beat_ended(self) -> None:
        """It ends as it should."""
        self.ended("beat", _beat_name())

    def worker_ticked(self, name: str, *, queues: tuple[str, ...], stuck: bool) -> None:
        """A worker of this process has its broker, and its loop turns."""
        self._say("worker", name, queues=queues, stuck=stuck)

    def loop_turned(self, name: str) -> None:
        """A loop of this process runs jobs and renews their leases."""
        self._say("loop", f"{name}:{os.getpid()}")

    def loop_ended(self, name: str) -> None:
        """It ends as it should."""
        self.ended("loop", f"{name}:{os.getpid()}")

    def ended(self, kind: str, name: str) -> None:
        """It ends as it should: nobody need miss it."""
        self._client.hdel(self._key, f"{kind} {name}")

    def all(self) -> list[Vital]:
        """Everyone heard of within a day, by kind and name."""
        now = self.now()
        found: Any = self._client.hgetall(self._key)
        said = [json.loads(text) for text in found.values()]
        vitals = [
            Vital(**fields | {"queues": tuple(fields["queues"]), "age_s": now - at})
            for fields in said
            if now - (at := fields.pop("at")) < FORGET_SECONDS
        ]
        return sorted(vitals, key=lambda vital: (vital.kind, vital.name))

    def _say(self, kind: str, name: str, **fields: Any) -> None:
        said = asdict(Vital(kind, name, socket.gethostname(), os.getpid(), 0.0, **fields))
        del said["age_s"]
        self._client.hset(self._key, f"{kind} {name}", json.dumps({**said, "at": self.now()}))

    def now(self) -> float:
        """Redis's time, as Unix time."""
        seconds, microseconds = self._client.time()  # pyright: ignore[reportUnknownMemberType]  # redis-py leaves **kwargs untyped
        return seconds + microseconds / 1e6


def _beat_name() -> str:
    return f"beat@{socket.gethostname()}:{os.getpid()}"
