"""CortexDB as a memory engine, over its own wire and over the hosted one."""

from tinymemory.engines.cortex.credential import BearerSource
from tinymemory.engines.cortex.engine import CortexEngine
from tinymemory.engines.cortex.timing import Timing

__all__ = ["BearerSource", "CortexEngine", "Timing"]
