"""A CortexDB from memory beside the worker: what `tinymemory up --engine cortex-local` runs."""

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic

import httpx

from tinymemory.errors import ConfigError
from workers.embedded import LOOPBACK, free_port
from workers.supervisor import Program

CORTEX_LOCAL = "cortex-local"
"""What it is called where an engine is chosen; the engine itself is `cortexdb`."""
ANY_KEY = "local"

_START_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class LocalCortex:
    """Where it listens, and how many seconds its facts lag behind the writes."""

    port: int
    extraction_delay: float

    @classmethod
    def planned(cls, build_delay: float, extraction_delay: float | None = None) -> "LocalCortex":
        """One on a free port, its facts there by the time builds are due unless told otherwise."""
        return cls(free_port(), build_delay / 2 if extraction_delay is None else extraction_delay)

    @property
    def url(self) -> str:
        """Where it listens, on this machine only."""
        return f"http://{LOOPBACK}:{self.port}"

    @property
    def environment(self) -> Mapping[str, str]:
        """What a worker, a host or a command sets to use it."""
        return {
            "TINYMEMORY_ENGINE": "cortexdb",
            "TINYMEMORY_CORTEXDB_ENDPOINT": self.url,
            "TINYMEMORY_CORTEXDB_API_KEY": ANY_KEY,
        }

    def program(self) -> Program:
        """Its process, ready once it answers."""
        options = ("--port", str(self.port), "--extraction-delay", str(self.extraction_delay))
        command = (sys.executable, "-m", "tinymemory", CORTEX_LOCAL, *options)
        return Program(CORTEX_LOCAL, command, ready=self._answers)

    async def _answers(self) -> None:
        deadline = monotonic() + _START_SECONDS
        headers = {"Authorization": f"Bearer {ANY_KEY}"}
        async with httpx.AsyncClient(base_url=self.url, headers=headers, trust_env=False) as client:
            while True:
                try:
                    if (await client.get("/v1/admin/health")).is_success:
                        return
                except httpx.HTTPError:
                    pass
                if monotonic() > deadline:
                    raise ConfigError(f"{CORTEX_LOCAL} did not answer within {_START_SECONDS:g} s")
                await asyncio.sleep(0.05)
