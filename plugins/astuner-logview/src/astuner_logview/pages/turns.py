"""The turns of an episode: what each call was asked, and what it replied."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from astuner.contract.schema import Call, Episode, Message
from astuner.contract.token_streams import stream_length
from astuner_logview.index.message_text import list_tool_calls, read_content, read_reasoning

LONGEST = 100_000
"""Characters of a text; a longer one is cut."""

Turn = dict[str, Any]


def describe_turns(episode: Episode, *, longest: int = LONGEST) -> list[Turn]:
    """Return a turn for each call, in their order."""
    said: dict[str, list[Message]] = {}
    return [_describe_turn(call, list_new_messages(call, said), longest) for call in episode.calls]


def list_new_messages(call: Call, said: dict[str, list[Message]]) -> Sequence[Message]:
    """Return the messages that a call has added to its agent's conversation.

    A call without token ids stores its whole conversation; `said` remembers those, by agent.
    """
    if stream_length(call):
        return call.messages
    before, messages = said.get(call.agent, []), list(call.messages)
    said[call.agent] = [*messages, call.reply]
    same = 0
    while same < min(len(before), len(messages)) and _is_same(before[same], messages[same]):
        same += 1
    return messages[same:]


def describe_message(message: Mapping[str, Any], *, longest: int = LONGEST) -> dict[str, Any]:
    """Return the `Message` of a chat message."""
    content, reasoning, calls = read_content(message.get("content")), read_reasoning(message), list_tool_calls(message)
    arguments = [call["arguments"] or "" for call in calls]
    left = [max(0, len(text) - longest) for text in (content, reasoning or "", *arguments)]
    for call, text in zip(calls, arguments, strict=True):
        call["arguments"] = text[:longest]
    identity, called = message.get("tool_call_id"), message.get("name")
    found: dict[str, Any] = {
        "role": str(message.get("role") or "assistant"),
        "name": called if isinstance(called, str) else None,
        "content": content[:longest],
        "reasoning": None if reasoning is None else reasoning[:longest],
        "tool_calls": calls,
        "tool_call_id": identity if isinstance(identity, str) else None,
    }
    if any(left):
        digest = _digest(content, reasoning, [(call["name"], text) for call, text in zip(calls, arguments, strict=True)])
        found["cut"] = {"content": left[0], "reasoning": left[1], "arguments": left[2:], "digest": digest}
    return found


def _describe_turn(call: Call, messages: Sequence[Message], longest: int) -> Turn:
    shown = [describe_message(message, longest=longest) for message in messages]
    if call.tools and shown:
        shown[0]["tools"] = [dict(tool) for tool in call.tools]
    reply = describe_message({"role": "assistant", **call.reply}, longest=longest)
    return {"call": call.index, "agent": call.agent, "messages": shown, "reply": reply, "finish_reason": call.finish_reason}


def _digest(*texts: object) -> str:
    """Return what only messages with the same texts have in common."""
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:16]


def _is_same(one: Message, other: Message) -> bool:
    return one.get("role") == other.get("role") and one.get("content") == other.get("content")
