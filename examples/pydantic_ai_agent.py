"""The memory tools in a pydantic-ai agent; offline, with a scripted model.

    python examples/pydantic_ai_agent.py

Needs pydantic-ai.  For a real model pass its name, such as `anthropic:…`, to `build_agent`.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from pydantic_ai import Agent, Tool
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import Model
from pydantic_ai.models.function import AgentInfo, FunctionModel

from tinymemory import MemoryTools, ReferenceEngine, ToolSpec
from tinymemory.tools import answer_call


def pydantic_ai_tools(tools: MemoryTools) -> list[Tool[Any]]:
    """The tools for pydantic-ai; a refused call is text that the model can act on."""
    return [
        Tool.from_schema(
            _caller(tools, spec),
            name=spec.name,
            description=spec.description,
            json_schema=spec.parameters,
        )
        for spec in tools.specs()
    ]


def _caller(tools: MemoryTools, spec: ToolSpec) -> Callable[..., Coroutine[Any, Any, str]]:
    async def call(**arguments: Any) -> str:
        text, _ = await answer_call(tools, spec.name, arguments)
        return text

    return call


def build_agent(model: Model | str, tools: MemoryTools) -> Agent[None, str]:
    """An agent with the memory tools and nothing else."""
    return Agent(model, tools=pydantic_ai_tools(tools))


def scripted(*answers: ToolCallPart | TextPart) -> FunctionModel:
    """A model that says what it is given, whatever it is asked."""
    left = iter(answers)

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[next(left)])

    return FunctionModel(answer)


async def main() -> list[str]:
    """Store, search and answer; what the tools said on the way."""
    tools = MemoryTools(ReferenceEngine()).placed_at("team:acme/agent:writer")
    model = scripted(
        ToolCallPart("memory_store", {"learning": {"text": "Maria wants refunds to her card."}}),
        ToolCallPart("memory_fetch", {"query": "refunds", "namespace": "team:other"}),
        ToolCallPart("memory_fetch", {"query": "refunds"}),
        TextPart("To her card."),
    )
    result = await build_agent(model, tools).run("Where do Maria's refunds go?")
    said = [
        str(part.content)
        for message in result.all_messages()
        for part in message.parts
        if part.part_kind == "tool-return"
    ]
    for line in [*said, result.output]:
        print(line)
    return said


if __name__ == "__main__":
    asyncio.run(main())
