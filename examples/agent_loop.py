"""A whole host: an agent with long-term memory around any OpenAI-compatible endpoint.

    python examples/agent_loop.py                  # offline: a scripted model and user
    OPENAI_BASE_URL=http://127.0.0.1:11434/v1 OPENAI_MODEL=qwen3 python examples/agent_loop.py

Copy it and change what is yours: the prompt, the model call, where user and thread come from.
"""

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import httpx
from scripted_model import SCRIPT, scripted

import tinymemory as tm
from tinymemory.tools import answer_call, openai_tools
from workers import MemoryJobs

Message = dict[str, Any]
Model = Callable[[list[Message], list[Message]], Awaitable[Message]]

SYSTEM = "You are a helpful agent. What you know from earlier is below; your tools reach further back."
PROMPT_CHARACTERS = 400  # small, so that a short chat shows compaction; a real prompt holds far more
log = logging.getLogger("agent-loop")
now = partial(datetime.now, UTC)


class Session:
    """One thread of one agent: the turns still in the prompt, and memory around each of them."""

    def __init__(self, memory: tm.AgentMemory, jobs: MemoryJobs, model: Model, thread: str) -> None:
        self.memory, self.jobs, self.model, self.thread = memory, jobs, model, thread
        self.tools = memory.tools()
        self.turns: list[tm.Turn] = []
        self.first = 0  # the index of the first turn still in the prompt
        self.carried = ""  # recalled when the session started, and again when turns were dropped

    async def start(self) -> None:
        """Recall what the agent knows, and this thread's last turns when it goes on."""
        self.carried = (await self.memory.start_session(self.thread)).markdown

    async def turn(self, text: str) -> str:
        """Answer the user, remembering both sides; memory being away never fails a turn."""
        index = self.first + len(self.turns)
        context = await self.memory.pre_turn(self.thread, index, text, in_prompt_from=self.first, at=now())
        if context.log_error:
            log.warning("turn %d is not remembered: %s", index, context.log_error)
        self.turns.append(tm.Turn(role=tm.Role.USER, text=text))
        reply, called = await self.generate(context.pack.markdown)
        self.turns.append(tm.Turn(role=tm.Role.ASSISTANT, text=reply))
        try:
            report = await self.memory.post_turn(self.thread, index + 1, reply, tool_calls=called, at=now())
            await self.jobs.after_turn(self.memory, report)
        except tm.TinyMemoryError as error:
            log.warning("after turn %d: %s", index + 1, error)
        await self.compact()
        return reply

    async def generate(self, recalled: str) -> tuple[str, list[tm.ToolCallRef]]:
        """The model's reply, and the tools it called on the way."""
        messages: list[Message] = [{"role": "system", "content": f"{SYSTEM}\n\n{self.carried}\n{recalled}"}]
        messages += [{"role": turn.role.value, "content": turn.text} for turn in self.turns]
        called: list[tm.ToolCallRef] = []
        for _ in range(5):
            message = await self.model(messages, openai_tools(self.tools))
            if not message.get("tool_calls"):
                return message["content"], called
            messages.append(message)
            for call in message["tool_calls"]:
                function = call["function"]
                answer, _ = await answer_call(self.tools, function["name"], function["arguments"])
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": answer})
                called.append(tm.ToolCallRef(name=function["name"], id=call["id"]))
        return "I went round in circles; please ask again.", called

    async def compact(self) -> None:
        """Drop the older half of an overflowing prompt, and carry over what memory makes of it."""
        half = len(self.turns) // 4 * 2  # whole exchanges
        if half and sum(len(turn.text) for turn in self.turns) > PROMPT_CHARACTERS:
            dropped, self.turns = self.turns[:half], self.turns[half:]
            self.first += half
            self.carried = (await self.memory.recall_for_compaction(self.thread, dropped)).markdown
            log.info("dropped %d turns, carrying over %d characters", half, len(self.carried))


async def endpoint(messages: list[Message], tools: list[Message]) -> Message:
    """The next message of a model behind a Chat Completions endpoint."""
    headers = {"Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', 'none')}"}
    body = {"model": os.environ["OPENAI_MODEL"], "messages": messages, "tools": tools}
    async with httpx.AsyncClient(base_url=os.environ["OPENAI_BASE_URL"], timeout=120) as client:
        answer = await client.post("chat/completions", json=body, headers=headers)
        return answer.raise_for_status().json()["choices"][0]["message"]


async def main(model: Model, said: Iterable[str]) -> None:
    """Talk until there is nothing more to say."""
    async with tm.MemoryConfig.from_env().build() as engine, MemoryJobs.from_env() as jobs:
        memory = tm.AgentMemory(engine, tm.MemoryLayout(tm.Namespace.parse("team:acme")), "support-01")
        session = Session(memory, jobs, model, thread=f"chat-{now():%Y%m%dT%H%M%S}")
        await session.start()
        for text in said:
            print(f"user: {text}\nagent: {await session.turn(text)}")


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    if "OPENAI_BASE_URL" in os.environ:
        asyncio.run(main(endpoint, filter(None, map(str.strip, sys.stdin))))
    else:
        asyncio.run(main(scripted, SCRIPT))
