"""The texts of a chat message, whatever form its content has."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any


def iterate_message_texts(message: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts of a message: content, reasoning, names and arguments of tool calls."""
    content = read_content(message.get("content"))
    if content:
        yield content
    reasoning = read_reasoning(message)
    if reasoning:
        yield reasoning
    for call in list_tool_calls(message):
        yield f"{call['name']} {call['arguments']}"


def read_content(content: Any) -> str:
    """Return the text of a message's content; parts that are not text are named in brackets."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list | tuple):
        return "\n".join(map(_read_part, content))
    return json.dumps(content, ensure_ascii=False, default=str)


def read_reasoning(message: Mapping[str, Any]) -> str | None:
    """Return the reasoning that a reply brings next to its content."""
    for key in ("reasoning_content", "reasoning"):
        if isinstance(text := message.get(key), str) and text:
            return text
    return None


def list_tool_calls(message: Mapping[str, Any]) -> list[dict[str, str | None]]:
    """Return the calls of tools in a reply: their ids, names and arguments, as text."""
    calls = message.get("tool_calls")
    return [_read_tool_call(call) for call in calls if isinstance(call, Mapping)] if isinstance(calls, list | tuple) else []


def _read_tool_call(call: Mapping[str, Any]) -> dict[str, str | None]:
    function = call.get("function")
    source = function if isinstance(function, Mapping) else call
    arguments = source.get("arguments", source.get("input"))
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, default=str)
    identity = call.get("id")
    return {"id": identity if isinstance(identity, str) else None, "name": str(source.get("name") or ""), "arguments": text}


def _read_part(part: Any) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping):
        return json.dumps(part, ensure_ascii=False, default=str)
    for key in ("text", "thinking", "refusal"):
        if isinstance(text := part.get(key), str):
            return text
    return f"[{part.get('type') or 'part'}]"
