"""Celery's functions: each parses, hands to the process's runtime, returns.  The ledger decides the rest."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUntypedFunctionDecorator=false, reportOptionalSubscript=false, reportOptionalMemberAccess=false
# Celery and Kombu ship no types; what is taken from them is narrowed where it leaves this module.

from typing import Any, Literal

from celery import Celery, Task
from celery.exceptions import Ignore, Retry
from celery.worker.request import Request
from celery.worker.state import revoked

from tinymemory.errors import InvalidRequestError, TinyMemoryError
from workers.ledger import JobKey, Lease
from workers.runs import Ended, Verdict
from workers.runtime import RuntimeHolder


class JobDeadError(TinyMemoryError):
    """The job was given up; its dead letter says what it was."""


class Periodic(Request):
    """A beat's message; by the clock of the app, it comes too late or does not."""

    def maybe_expire(self) -> Literal[True] | None:
        """True, and it is not run, when it came too late."""
        if self.expires is None or self._app.now() <= self.expires:
            return None
        revoked.add(self.id)
        return True


def register_tasks(app: Celery, runtimes: RuntimeHolder) -> None:
    """Give the app its tasks."""

    def runtime(task: Any) -> Any:
        return runtimes.get(task.request.hostname)

    # Their rows in Flower are sent by the runs themselves (see workers.events).
    job_options: dict[str, Any] = {"bind": True, "send_events": False, "max_retries": None}

    @app.task(name="tinymemory.build_beliefs", **job_options)
    def build_beliefs(self: Any, key: object, token: object) -> str:
        return told(runtime(self).answer(lease_of(key, token), queue_of(self)))

    @app.task(name="tinymemory.ingest_brain", **job_options)
    def ingest_brain(self: Any, key: object, token: object) -> str:
        return told(runtime(self).answer(lease_of(key, token), queue_of(self)))

    periodic: dict[str, Any] = {"bind": True, "Request": Periodic}

    @app.task(name="tinymemory.sweep", **periodic)
    def sweep(self: Any) -> dict[str, Any]:
        return runtime(self).call(runtime(self).round.sweep).model_dump()

    @app.task(name="tinymemory.reap", **periodic)
    def reap(self: Any) -> int:
        return runtime(self).call(runtime(self).round.reap)

    @app.task(name="tinymemory.probe", **periodic)
    def probe(self: Any) -> int:
        return runtime(self).call(runtime(self).round.probe)

    @app.task(name="tinymemory.full_build", **periodic)
    def full_build(self: Any) -> int:
        return runtime(self).call(runtime(self).round.full_build)

    @app.task(name="tinymemory.prune", **periodic)
    def prune(self: Any) -> int:
        return runtime(self).call(runtime(self).round.prune)


def lease_of(key: object, token: object) -> Lease:
    """The lease a message names.

    Raises:
        InvalidRequestError: It is none of ours; the ledger would be asked in vain, again and again.
    """
    if not isinstance(key, str) or type(token) is not int:
        raise InvalidRequestError("a doorbell's arguments are a key and a token")
    return Lease(JobKey(key), token)


def told(ended: Ended) -> str:
    """What Celery is told of a doorbell's end: a result, or the exception that stands for it."""
    match ended.verdict:
        case Verdict.SERVED:
            return ended.result
        case Verdict.AGAIN:
            raise Retry(ended.why)
        case Verdict.DEAD:
            raise JobDeadError(ended.why)
        case Verdict.STALE | Verdict.CANCELLED:
            raise Ignore


def queue_of(task: Task[Any, Any]) -> str:
    """The queue the doorbell rang in."""
    return (task.request.delivery_info or {}).get("routing_key") or ""
