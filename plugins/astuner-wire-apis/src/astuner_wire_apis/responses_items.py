"""The input items of `/v1/responses`, as chat messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from astuner.model.gateway.wire_apis import bad_request, format_value, join_text, read_string_in
from astuner_wire_apis.responses_calls import KINDS, read_call, read_call_id
from astuner_wire_apis.responses_tools import Toolbox

ROLES = ("user", "assistant", "system", "developer")

MESSAGE_PARTS = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}
REASONING_PARTS = {"reasoning_text": "text", "summary_text": "text"}
AGENT_PARTS = {"input_text": "text", "encrypted_content": "encrypted_content"}
"""Encrypted parts hold what the model wrote in its call: nothing is encrypted here."""


def read_items(given: Any, tools: Toolbox | None = None) -> list[dict[str, Any]]:
    """Return the messages of an input, a text or a list of items; raises ApiError (400) naming the unsupported item.

    An answer comes back as several items (reasoning, text, calls), which become one message again. `tools` are those of
    the request; what the items add to them is added.
    """
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    if not isinstance(given, list) or not given:
        raise bad_request("'input' must be a text or a list with at least one item.", "input")
    known = Toolbox() if tools is None else tools
    messages: list[dict[str, Any]] = []
    for number, item in enumerate(given):
        message = _read(item, f"input[{number}]", known)
        if message is None:
            continue
        if messages and _continues(messages[-1], message):
            messages[-1] = _join(messages[-1], message)
        else:
            messages.append(message)
    return messages


def _read(item: Any, place: str, tools: Toolbox) -> dict[str, Any] | None:
    if not isinstance(item, dict):
        raise bad_request(f"{place} must be an object, not {format_value(item)}.", place)
    kind = item.get("type") or ("message" if "role" in item else None)
    if kind == "item_reference":
        text = f"{place} is an item_reference, but items are not kept by id. Send the item itself, or 'previous_response_id'."
        raise bad_request(text, place)
    reader = READERS.get(kind) if isinstance(kind, str) else None
    if reader is None:
        served = ", ".join(READERS)
        raise bad_request(
            f"{place} is an item of type {format_value(kind)}, which is not served and not dropped silently; served: {served}.",
            place,
        )
    return reader(item, place, tools)


def _message(item: Mapping[str, Any], place: str, tools: Toolbox) -> dict[str, Any]:
    role, content = item.get("role"), item.get("content")
    if role not in ROLES:
        raise bad_request(f"{place}.role is {format_value(role)}; known roles: {', '.join(ROLES)}.", f"{place}.role")
    if content is None and role != "assistant":
        raise bad_request(f"{place}.content is missing.", f"{place}.content")
    return {"role": role, "content": join_text(content, f"{place}.content", MESSAGE_PARTS)}


def _read_agent_message(item: Mapping[str, Any], place: str, tools: Toolbox) -> dict[str, Any]:
    if item.get("content") is None:
        raise bad_request(f"{place}.content is missing.", f"{place}.content")
    return {"role": "user", "content": join_text(item["content"], f"{place}.content", AGENT_PARTS)}


def _read_output(item: Mapping[str, Any], place: str, tools: Toolbox) -> dict[str, Any]:
    if item.get("output") is None:
        raise bad_request(f"{place}.output is missing.", f"{place}.output")
    return _answer(item, place, join_text(item["output"], f"{place}.output", MESSAGE_PARTS))


def _read_shell_output(item: Mapping[str, Any], place: str, tools: Toolbox) -> dict[str, Any]:
    output = item.get("output")
    if not isinstance(output, list) or not all(isinstance(part, dict) for part in output):
        raise bad_request(f"{place}.output must be a list of objects, one for each command.", f"{place}.output")
    return _answer(item, place, json.dumps(output, ensure_ascii=False))


def _read_patch_output(item: Mapping[str, Any], place: str, tools: Toolbox) -> dict[str, Any]:
    status = read_string_in(item, "status", place)
    text = join_text(item.get("output"), f"{place}.output", MESSAGE_PARTS)
    return _answer(item, place, f"{status}: {text}" if text else status)


def _read_found_tools(item: Mapping[str, Any], place: str, tools: Toolbox) -> dict[str, Any]:
    shown = tools.find(_read_tools(item, place), f"{place}.tools")
    return _answer(item, place, json.dumps(shown, ensure_ascii=False))


def _read_more_tools(item: Mapping[str, Any], place: str, tools: Toolbox) -> None:
    tools.offer(_read_tools(item, place), f"{place}.tools")


def _read_tools(item: Mapping[str, Any], place: str) -> list[Any]:
    found = item.get("tools")
    if not isinstance(found, list):
        raise bad_request(f"{place}.tools must be a list, not {format_value(found)}.", f"{place}.tools")
    return found


def _answer(item: Mapping[str, Any], place: str, content: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": read_call_id(item, place), "content": content}


def _read_reasoning(item: Mapping[str, Any], place: str, tools: Toolbox) -> dict[str, Any] | None:
    for key in ("content", "summary"):
        text = join_text(item.get(key), f"{place}.{key}", REASONING_PARTS)
        if text:
            return {"role": "assistant", "reasoning_content": text}
    if item.get("encrypted_content"):
        text = f"{place} holds nothing but encrypted_content, which the gateway cannot read. Send its 'content'."
        raise bad_request(text, f"{place}.encrypted_content")
    return None


READERS: Mapping[str, Callable[[Mapping[str, Any], str, Toolbox], dict[str, Any] | None]] = {
    "message": _message,
    "agent_message": _read_agent_message,
    "reasoning": _read_reasoning,
    "additional_tools": _read_more_tools,
    "function_call": read_call,
    "function_call_output": _read_output,
    **{kind.item: read_call for kind in KINDS.values()},
    "custom_tool_call_output": _read_output,
    "local_shell_call_output": _read_output,
    "shell_call_output": _read_shell_output,
    "apply_patch_call_output": _read_patch_output,
    "tool_search_output": _read_found_tools,
}


def _continues(last: Mapping[str, Any], message: Mapping[str, Any]) -> bool:
    """Whether an item continues the answer of the items before it; reasoning begins an answer, and an answer has one text."""
    if last["role"] != "assistant" or message["role"] != "assistant":
        return False
    if "reasoning_content" in message:
        return not last.get("content") and not last.get("tool_calls")
    return "tool_calls" in message or not last.get("content")


def _join(last: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    calls = [*last.get("tool_calls", ()), *said.get("tool_calls", ())]
    thoughts = [message["reasoning_content"] for message in (last, said) if message.get("reasoning_content")]
    joined = {"role": "assistant", "content": said.get("content") or last.get("content")}
    if thoughts:
        joined["reasoning_content"] = "\n".join(thoughts)
    return {**joined, "tool_calls": calls} if calls else joined
