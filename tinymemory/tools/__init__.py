"""The tools a model gets: seven calls over memory, confined to what the host chose."""

from tinymemory.tools.adapters import answer_call, anthropic_tools, openai_response_tools, openai_tools
from tinymemory.tools.memory_tools import MemoryTools, ToolScope
from tinymemory.tools.spec import ToolName, ToolSpec

__all__ = [
    "MemoryTools",
    "ToolName",
    "ToolScope",
    "ToolSpec",
    "answer_call",
    "anthropic_tools",
    "openai_response_tools",
    "openai_tools",
]
