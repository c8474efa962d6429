"""A user and a model that follow a script, so that the examples run offline."""

import json
from typing import Any

SCRIPT = ["Hi, I am Maria.", "Remember: refunds go to my Visa card.", *["Where do my refunds go? " * 5] * 4]


async def scripted(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
    """Stores what it is told to remember, and quotes what it was shown of that."""
    role, said = messages[-1]["role"], messages[-1]["content"]
    if role == "user" and said.startswith("Remember"):
        function = {"name": "memory_store", "arguments": json.dumps({"learning": {"text": said}})}
        call = {"id": "call_1", "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [call]}
    if role == "tool":
        return {"role": "assistant", "content": "Noted."}
    known = [line[2:] for line in messages[0]["content"].splitlines() if line.startswith("- Remember")]
    return {"role": "assistant", "content": known[0] if known else "I do not know yet."}
