"""The input items of `/v1/responses`, as chat messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from astuner.gateway.dialects.fields import format_value, read_string_in
from astuner.gateway.recording.messages import join_text
from astuner.rendering.errors import bad_request

ROLES = ("user", "assistant", "system", "developer")

MESSAGE_PARTS = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}
REASONING_PARTS = {"reasoning_text": "text", "summary_text": "text"}


def read_items(given: Any) -> list[dict[str, Any]]:
    """Return the messages of an input, a text or a list of items; raises ApiError (400) naming the unsupported item.

    An answer comes back as several items (reasoning, text, calls), which become one message again.
    """
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    if not isinstance(given, list) or not given:
        raise bad_request("'input' must be a text or a list with at least one item.", "input")
    messages: list[dict[str, Any]] = []
    for number, item in enumerate(given):
        message = _read(item, f"input[{number}]")
        if message is None:
            continue
        if messages and _continues(messages[-1], message):
            messages[-1] = _join(messages[-1], message)
        else:
            messages.append(message)
    return messages


def _read(item: Any, place: str) -> dict[str, Any] | None:
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
    return reader(item, place)


def _message(item: Mapping[str, Any], place: str) -> dict[str, Any]:
    role, content = item.get("role"), item.get("content")
    if role not in ROLES:
        raise bad_request(f"{place}.role is {format_value(role)}; known roles: {', '.join(ROLES)}.", f"{place}.role")
    if content is None and role != "assistant":
        raise bad_request(f"{place}.content is missing.", f"{place}.content")
    return {"role": role, "content": join_text(content, f"{place}.content", MESSAGE_PARTS)}


def _call(item: Mapping[str, Any], place: str) -> dict[str, Any]:
    function = {key: read_string_in(item, key, place) for key in ("name", "arguments")}
    return {
        "role": "assistant",
        "tool_calls": [{"id": read_string_in(item, "call_id", place), "type": "function", "function": function}],
    }


def _call_output(item: Mapping[str, Any], place: str) -> dict[str, Any]:
    if item.get("output") is None:
        raise bad_request(f"{place}.output is missing.", f"{place}.output")
    content = join_text(item["output"], f"{place}.output", MESSAGE_PARTS)
    return {"role": "tool", "tool_call_id": read_string_in(item, "call_id", place), "content": content}


def _read_reasoning(item: Mapping[str, Any], place: str) -> dict[str, Any] | None:
    for key in ("content", "summary"):
        text = join_text(item.get(key), f"{place}.{key}", REASONING_PARTS)
        if text:
            return {"role": "assistant", "reasoning_content": text}
    if item.get("encrypted_content"):
        text = f"{place} holds nothing but encrypted_content, which the gateway cannot read. Send its 'content'."
        raise bad_request(text, f"{place}.encrypted_content")
    return None


READERS: Mapping[str, Callable[[Mapping[str, Any], str], dict[str, Any] | None]] = {
    "message": _message,
    "function_call": _call,
    "function_call_output": _call_output,
    "reasoning": _read_reasoning,
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
