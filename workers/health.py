"""Whether the processes on this machine are well, for a container's probe."""

import os
import socket
from collections.abc import Sequence

import httpx

from tinymemory.errors import EngineError, NotFoundError
from workers.connection import sync_redis
from workers.settings import WorkerSettings
from workers.vitals import Vital, Vitals

SILENT_SECONDS = 30.0
"""How long a process may say nothing: one that lost its broker and does not come back is not well."""
_ANSWER_SECONDS = 3.0


def ensure_well(settings: WorkerSettings, kinds: Sequence[str]) -> list[str]:
    """One line about each process of these kinds here (`worker`, `beat`).

    Raises:
        NotFoundError: There is none of a kind.
        EngineError: One is not well; the message says why.
        RedisError: The ledger does not answer.
    """
    client = sync_redis(settings.redis_url, timeout=_ANSWER_SECONDS)
    try:
        known = Vitals(client, key_prefix=settings.key_prefix).all()
    finally:
        client.close()
    here = [vital for vital in known if vital.host == socket.gethostname() and _is_running(vital.pid)]
    lines: list[str] = []
    for kind in kinds:
        found = [vital for vital in here if vital.kind == kind]
        if not found:
            raise NotFoundError(f"no {kind} runs on {socket.gethostname()}, or it never reached Redis")
        lines += [_line(vital) for vital in found]
    for vital in here:
        _ensure_well(vital, kinds)
    return lines


def ensure_flower_well(url: str) -> None:
    """Raise `EngineError` unless Flower answers at this address."""
    try:
        httpx.get(f"{url}/healthcheck", timeout=_ANSWER_SECONDS, trust_env=False).raise_for_status()
    except httpx.HTTPError as error:
        raise EngineError(f"flower at {url} does not answer ({type(error).__name__})") from error


def _ensure_well(vital: Vital, kinds: Sequence[str]) -> None:
    # The loops that run a worker's jobs are a part of it.
    if vital.kind not in kinds and not (vital.kind == "loop" and "worker" in kinds):
        return
    if vital.age_s > SILENT_SECONDS:
        raise EngineError(f"{vital.kind} {vital.name} has said nothing for {vital.age_s:.0f} s")
    if vital.stuck:
        raise EngineError(f"{vital.kind} {vital.name} takes nothing while messages wait for it")


def _line(vital: Vital) -> str:
    return f"{vital.kind} {vital.name}: heard of {vital.age_s:.1f} s ago"


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
