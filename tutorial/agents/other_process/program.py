"""A calculator agent that knows nothing of astuner. It uses OPENAI_BASE_URL, OPENAI_API_KEY and Python's standard library."""

from __future__ import annotations

import json
import math
import os
import sys
from urllib.request import Request, urlopen

PARAMETERS = {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]}
CALCULATOR = {"type": "function", "function": {"name": "calculator", "parameters": PARAMETERS}}


def calculator(expression: str) -> str:
    """Multiply the whole numbers of an expression such as 12*34."""
    try:
        return str(math.prod(map(int, expression.split("*"))))
    except ValueError as error:
        return f"error: {error}"


def ask(messages: list[dict]) -> dict:
    """Return the model's next message."""
    body = {"model": "tuned", "messages": messages, "tools": [CALCULATOR]}
    headers = {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}", "Content-Type": "application/json"}
    request = Request(f"{os.environ['OPENAI_BASE_URL']}/chat/completions", json.dumps(body).encode(), headers)
    with urlopen(request, timeout=60) as response:
        return json.load(response)["choices"][0]["message"]


def answer(query: str) -> str:
    """Answer one question in at most three calls."""
    messages = [{"role": "system", "content": "Use your tools."}, {"role": "user", "content": query}]
    for _ in range(3):
        reply = ask(messages)
        messages.append(reply)
        if not reply.get("tool_calls"):
            return reply["content"] or ""
        for call in reply["tool_calls"]:
            result = calculator(str(json.loads(call["function"]["arguments"]).get("expression")))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    return ""


print(answer(sys.argv[1]))
