"""The tools in the shapes that model APIs take, and their calls answered as text for the model.

Plain dicts: neither package is needed to build them.
"""

import json
from typing import Any

from tinymemory.errors import InvalidRequestError, TinyMemoryError
from tinymemory.tools.memory_tools import MemoryTools


def openai_tools(tools: MemoryTools) -> list[dict[str, Any]]:
    """Function tools for Chat Completions, of OpenAI and of every endpoint compatible with it.

    Source: https://platform.openai.com/docs/guides/function-calling
    """
    return [{"type": "function", "function": spec.model_dump(mode="json")} for spec in tools.specs()]


def openai_response_tools(tools: MemoryTools) -> list[dict[str, Any]]:
    """Function tools for OpenAI's Responses API.

    Not in strict mode, which has no optional arguments.

    Source: https://platform.openai.com/docs/guides/function-calling
    """
    return [{"type": "function", **spec.model_dump(mode="json"), "strict": False} for spec in tools.specs()]


def anthropic_tools(tools: MemoryTools) -> list[dict[str, Any]]:
    """Tools for Anthropic's Messages API.

    Source: https://platform.claude.com/docs/en/agents-and-tools/tool-use/overview
    """
    return [
        {"name": spec.name, "description": spec.description, "input_schema": spec.parameters}
        for spec in tools.specs()
    ]


async def answer_call(tools: MemoryTools, name: str, arguments: object) -> tuple[str, bool]:
    """Run a call a model made and answer the text to give back to it, and whether that is an error.

    `arguments` may be the JSON text a model wrote.  A library error becomes `error: …`, which says
    what would be right; the loop goes on.
    """
    try:
        return json_text(await tools.call(name, _parsed(name, arguments))), False
    except TinyMemoryError as error:
        return f"error: {error}", True


def json_text(result: dict[str, Any]) -> str:
    """A result as compact JSON, non-ASCII as it is."""
    return json.dumps(result, ensure_ascii=False, separators=(",", ":"))


def _parsed(name: str, arguments: object) -> object:
    if not isinstance(arguments, str):
        return arguments
    try:
        # Some models write nothing at all for a call without arguments.
        return json.loads(arguments) if arguments.strip() else None
    except (ValueError, RecursionError):
        raise InvalidRequestError(f"{name[:40]}: the arguments are not valid JSON") from None
