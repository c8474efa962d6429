"""The tools in the shapes of the model APIs, held against those packages' own types."""

import json
from typing import Any

import pytest
from anthropic.types import ToolParam, ToolUseBlock
from jsonschema import Draft202012Validator
from openai.types.chat import ChatCompletionFunctionToolParam, ChatCompletionMessage
from openai.types.responses import FunctionToolParam
from pydantic import ConfigDict, TypeAdapter, with_config

from tinymemory import MemoryTools
from tinymemory.tools.adapters import answer_call, anthropic_tools, openai_response_tools, openai_tools

NOT_JSON = "error: invalid request: memory_list: the arguments are not valid JSON"
CLOSED = ConfigDict(extra="forbid", arbitrary_types_allowed=True)


def adapter(kind: Any) -> TypeAdapter[Any]:
    """Validates as the package's own TypedDict says, refusing keys it does not have."""
    return TypeAdapter(with_config(CLOSED)(kind))


@pytest.mark.parametrize(
    ("build", "kind"),
    [
        (openai_tools, ChatCompletionFunctionToolParam),
        (openai_response_tools, FunctionToolParam),
        (anthropic_tools, ToolParam),
    ],
)
def test_tools_are_what_the_packages_own_types_allow(tools: MemoryTools, build: Any, kind: Any) -> None:
    dicts = build(tools)

    assert len(dicts) == 7
    for tool in dicts:
        adapter(kind).validate_python(tool)
        assert json.loads(json.dumps(tool)) == tool


def test_names_and_descriptions_fit_every_api(tools: MemoryTools) -> None:
    for spec in tools.specs():
        assert spec.name.isidentifier()
        assert len(spec.name) <= 64
        assert 20 <= len(spec.description) <= 1024


def test_every_schema_is_a_valid_json_schema(tools: MemoryTools) -> None:
    for spec in tools.specs():
        Draft202012Validator.check_schema(spec.parameters)


def test_read_only_tools_are_all_that_is_offered(tools: MemoryTools) -> None:
    offered = [tool["function"]["name"] for tool in openai_tools(tools.read_only())]

    assert offered == ["memory_recall", "memory_fetch", "memory_list", "memory_get", "memory_explore"]
    assert [tool["name"] for tool in anthropic_tools(tools.read_only())] == offered


async def test_an_openai_call_is_answered_from_its_json_text(tools: MemoryTools) -> None:
    message = ChatCompletionMessage.model_validate(
        {
            "role": "assistant",
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "memory_store", "arguments": '{"learning": {"text": "été"}}'},
                }
            ],
        }
    )
    assert message.tool_calls is not None
    call = message.tool_calls[0]
    assert call.type == "function"

    text, is_error = await answer_call(tools, call.function.name, call.function.arguments)
    listed, _ = await answer_call(tools, "memory_list", "")

    assert not is_error
    assert json.loads(text)["replayed"] is False
    assert '"text":"été"' in listed


async def test_an_anthropic_call_is_answered_from_its_input(tools: MemoryTools) -> None:
    call = {"type": "tool_use", "id": "t1", "name": "memory_get", "input": {"ids": ["x"]}}
    block = ToolUseBlock.model_validate({**call, "caller": {"type": "direct"}})

    assert await answer_call(tools, block.name, block.input) == ('{"items":[],"missing":["x"]}', False)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("memory_list", "{", NOT_JSON),
        ("memory_list", "[" * 100_000, NOT_JSON),
        ("memory_list", "null", '{"items":[]}'),
        ("memory_list", "7", "error: invalid request: memory_list: the arguments are a JSON object"),
        ("memory_list", '{"limit": 1.0}', "error: invalid request: memory_list: `limit` is a whole number"),
        ("memory_wipe", "{}", "error: invalid request: there is no tool `memory_wipe`"),
    ],
)
async def test_what_is_wrong_with_a_call_is_text_for_the_model(
    tools: MemoryTools, name: str, arguments: str, message: str
) -> None:
    text, is_error = await answer_call(tools, name, arguments)

    assert text.startswith(message)
    assert is_error == message.startswith("error: ")
