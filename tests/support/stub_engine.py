"""An engine for workers under test: it does as the files in `STUB_DIR` say, and writes down each call.

Not a test module: worker processes import it by `TINYMEMORY_ENGINE_FACTORY=stub_engine:make`.
"""

import asyncio
import importlib
import json
import os
import time
from pathlib import Path
from typing import Any

from tinymemory import errors
from tinymemory.engine import EngineDescriptor, EngineHealth, Item
from tinymemory.engines.reference import ReferenceEngine
from tinymemory.items import StoreReceipt
from tinymemory.namespace import Namespace, Reach
from tinymemory.query import ConsolidateReceipt, ConsolidateRequest, ConsolidateStatus


class StubEngine(ReferenceEngine):
    """Builds, stores and answers after its files' will; one for each root and profile of a process."""

    DESCRIPTOR: EngineDescriptor = ReferenceEngine.DESCRIPTOR

    def __init__(self, root: Namespace, profile: str, folder: Path) -> None:
        super().__init__()
        self._root = str(root)
        self._profile = profile
        self._folder = folder

    async def consolidate(self, request: ConsolidateRequest) -> ConsolidateReceipt:
        await self._act("consolidate", str(request.reach.at))
        return ConsolidateReceipt(status=ConsolidateStatus.COMPLETED, scopes=1, built=1)

    async def store(self, item: Item) -> StoreReceipt:
        await self._act("store", getattr(item, "title", None) or "")
        return await super().store(item)

    async def health(self) -> EngineHealth:
        self._write("health", "begin", "")
        state = self._behaviour().get("health", "ok")
        return EngineHealth.ok() if state == "ok" else EngineHealth.down(state)

    async def unbuilt(self, reach: Reach) -> list[ConsolidateRequest]:
        return [
            ConsolidateRequest(reach=Reach.exact(Namespace.parse(at)))
            for at in self._behaviour().get("unbuilt", [])
        ]

    async def _act(self, call: str, about: str) -> None:
        behaviour = self._behaviour(about)
        self._write(call, "begin", about)
        try:
            if "limit_per_s" in behaviour:
                self._throttle(behaviour)
            await asyncio.sleep(behaviour.get("sleep", 0.0))
            if "error" in behaviour:
                raise getattr(errors, behaviour["error"])(
                    behaviour.get("message", "stubbed"), **behaviour.get("with", {})
                )
            if behaviour.get("exit"):
                os._exit(9)
        except BaseException as error:
            self._write(call, type(error).__name__, about)
            raise
        self._write(call, "end", about)

    def _throttle(self, behaviour: dict[str, Any]) -> None:
        begun = [call for call in self._calls() if call["what"] == "end" and call["root"] == self._root]
        recent = [call for call in begun if time.time() - call["at"] < 1.0]
        if len(recent) >= behaviour["limit_per_s"]:
            raise errors.UnavailableError("429: slow down", retry_after=0.5)

    def _calls(self) -> list[dict[str, Any]]:
        path = self._folder / "calls.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def _behaviour(self, about: str = "") -> dict[str, Any]:
        """What the most particular file says: of the thing, of the root, of all."""
        merged: dict[str, Any] = {}
        for name in ("*", self._root, about):
            path = self._folder / f"{name.replace('/', '|')}.json"
            if name and path.exists():
                merged |= json.loads(path.read_text())
        return merged

    def _write(self, call: str, what: str, about: str) -> None:
        record = {
            "call": call,
            "what": what,
            "about": about,
            "root": self._root,
            "profile": self._profile,
            "pid": os.getpid(),
            "at": time.time(),
        }
        with (self._folder / "calls.jsonl").open("a") as file:
            file.write(json.dumps(record) + "\n")


def make(root: Namespace, profile: str) -> StubEngine:
    """What `engine_factory` names."""
    return StubEngine(root, profile, Path(os.environ["STUB_DIR"]))


def _warm() -> None:
    """Use clients in the process that imports this, which prefork then forks, and import in a thread."""
    import threading

    import httpx
    import redis

    client: Any = redis.Redis.from_url(os.environ["TINYMEMORY_REDIS_URL"])  # pyright: ignore[reportUnknownMemberType]  # redis-py leaves **kwargs untyped
    client.ping()
    _KEPT.extend([client, httpx.Client()])

    def keep_importing() -> None:
        for name in ("xml.dom.minidom", "sqlite3", "tarfile", "zipfile", "html.parser") * 20:
            importlib.import_module(name)
            time.sleep(0.01)

    threading.Thread(target=keep_importing, daemon=True).start()


def warmed(root: Namespace, profile: str) -> StubEngine:
    """The same; whoever loads it was warmed first."""
    return make(root, profile)


_KEPT: list[object] = []
if os.environ.get("TINYMEMORY_ENGINE_FACTORY") == "stub_engine:warmed":
    _warm()
