"""The reference engine keeps every promise, by the plugin as an engine's author would use it."""

from collections.abc import Callable

from tinymemory import ReferenceEngine
from tinymemory.conformance.plugin import MakeEngine

pytest_plugins = ["tinymemory.conformance.plugin"]


def test_the_reference_engine_keeps_its_promises(conformance: Callable[[MakeEngine], None]) -> None:
    conformance(ReferenceEngine)
