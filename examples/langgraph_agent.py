"""The memory tools in a LangGraph agent; offline, with a scripted chat model.

    python examples/langgraph_agent.py

Needs langgraph.  For a real model pass `init_chat_model(...)` of langchain to `build_agent`.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from langchain_core.language_models import BaseChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolCall
from langchain_core.tools import StructuredTool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from tinymemory import MemoryTools, ReferenceEngine, ToolSpec
from tinymemory.tools import answer_call


def langchain_tools(tools: MemoryTools) -> list[StructuredTool]:
    """The tools for anything of LangChain; a refused call is text that the model can act on."""
    return [
        StructuredTool(
            name=spec.name,
            description=spec.description,
            args_schema=spec.parameters,
            coroutine=_caller(tools, spec),
        )
        for spec in tools.specs()
    ]


def _caller(tools: MemoryTools, spec: ToolSpec) -> Callable[..., Coroutine[Any, Any, str]]:
    async def call(**arguments: Any) -> str:
        text, _ = await answer_call(tools, spec.name, arguments)
        return text

    return call


def build_agent(model: BaseChatModel, tools: MemoryTools) -> Any:
    """A graph that lets the model call tools until it answers."""
    offered = langchain_tools(tools)
    bound = model.bind_tools(offered)

    async def think(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await bound.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("think", think)
    graph.add_node("tools", ToolNode(offered))
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", tools_condition)
    graph.add_edge("tools", "think")
    return graph.compile()


class ScriptedModel(GenericFakeChatModel):
    """Says what it is given, whatever it is asked."""

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        """The model itself: the script knows the tools."""
        return self


def _calling(name: str, arguments: dict[str, Any]) -> AIMessage:
    return AIMessage(content="", tool_calls=[ToolCall(name=name, args=arguments, id=f"call-{name}")])


async def main() -> str:
    """Store, search and answer; the answer of the last tool call."""
    tools = MemoryTools(ReferenceEngine()).placed_at("team:acme/agent:writer")
    script = [
        _calling("memory_store", {"learning": {"text": "Maria wants refunds to her card."}}),
        _calling("memory_fetch", {"query": "refunds", "namespace": "team:other"}),
        _calling("memory_fetch", {"query": "refunds"}),
        AIMessage(content="To her card."),
    ]
    agent = build_agent(ScriptedModel(messages=iter(script)), tools)
    state = await agent.ainvoke({"messages": [("user", "Where do Maria's refunds go?")]})
    for message in state["messages"]:
        print(f"{message.type}: {message.content or [call['name'] for call in message.tool_calls]}")
    return state["messages"][-2].content


if __name__ == "__main__":
    asyncio.run(main())
