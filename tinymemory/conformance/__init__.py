"""The proof that an engine keeps its promises: `await run(engine)`, or the pytest plugin."""

from tinymemory.conformance.errors import ConformanceError
from tinymemory.conformance.suite import CHECKS, run, run_check

__all__ = ["CHECKS", "ConformanceError", "run", "run_check"]
