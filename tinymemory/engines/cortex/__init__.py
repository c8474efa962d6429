"""CortexDB as a memory engine, over its own wire and over the hosted one."""
