"""The checks by name, and running them over an engine."""

from collections.abc import Awaitable, Callable

from tinymemory.conformance import deriving, forgetting, reading, storing
from tinymemory.conformance.errors import BrokenPromiseError, ConformanceError
from tinymemory.conformance.lab import Lab
from tinymemory.engine import MemoryEngine

CHECKS: dict[str, Callable[[Lab], Awaitable[None]]] = {
    "health": storing.health,
    "round_trip": storing.round_trip,
    "replay": storing.replay,
    "explore": reading.explore,
    "get": reading.get,
    "store_many": storing.store_many,
    "store_with": storing.store_with,
    "fetch_filters": reading.fetch_filters,
    "unsupported_modes": reading.unsupported_modes,
    "namespaces": reading.namespaces,
    "empty_forget": forgetting.empty_forget,
    "forget_by_id": forgetting.forget_by_id,
    "forget_by_filter": forgetting.forget_by_filter,
    "recall": deriving.recall,
    "consolidate": deriving.consolidate,
    "cleanup": forgetting.cleanup,
}
"""Every check in the order it runs; each looks only at what it wrote itself."""


async def run(engine: MemoryEngine) -> None:
    """Run every check, stopping at the first broken promise.

    It writes below workspaces of its own and forgets them again, also behind a failure.  Because it
    tries whether an empty forget is refused, run it on memory you can do without.

    Raises:
        ConformanceError: A promise was broken; the engine's own error, if any, is the cause.
    """
    for name in CHECKS:
        await run_check(engine, name)


async def run_check(engine: MemoryEngine, name: str) -> None:
    """Run one check, named as in `CHECKS`.

    Raises:
        ConformanceError: A promise was broken; the engine's own error, if any, is the cause.
        KeyError: There is no such check.
    """
    check = CHECKS[name]
    lab = Lab(engine)
    try:
        await check(lab)
    except BrokenPromiseError as broken:
        failure = ConformanceError(name, str(broken))
        await lab.tidy_after(failure)
        raise failure from None
    except Exception as error:
        failure = ConformanceError(name, f"the engine raised {type(error).__name__}: {error}")
        await lab.tidy_after(failure)
        raise failure from error
    except BaseException as ended:
        await lab.tidy_after(ended)
        raise
    await _tidy(lab)


async def _tidy(lab: Lab) -> None:
    try:
        await lab.tidy()
    except Exception as error:
        raise ConformanceError("cleanup", f"the engine raised {type(error).__name__}: {error}") from error
