"""Messages in any tracer's form, converted for a chat API."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from astuner_tracing.attributes import parse_json
from astuner_tracing.reprs import parse_repr

_ROLES = {"human": "user", "ai": "assistant", "model": "assistant", "bot": "assistant", "function": "tool"}
_SEVERAL = ("messages", "msgs")
_ONE = ("msg", "message", "input", "query", "question", "prompt", "user_input")
_SAID = ("output", "answer", "response", "result")
_CALLS = ("tool_call", "tool_use", "function_call")
_RESULTS = ("tool_call_response", "tool_result", "function_call_output")
_THOUGHTS = ("reasoning", "thinking", "redacted_thinking")


@frozen(kw_only=True)
class ChatMessage:
    """One message of a conversation."""

    role: str
    text: str = ""
    tool_calls: tuple[Mapping[str, str], ...] = ()
    """Each with `id`, `name` and `arguments`, which is JSON in a string."""
    tool_call_id: str | None = None
    not_text: bool = False
    """Whether it had an image or a file, which `text` does not show."""

    def as_openai(self) -> dict[str, Any]:
        """Return the message in OpenAI's form."""
        message: dict[str, Any] = {"role": self.role, "content": self.text}
        if self.tool_calls:
            message["tool_calls"] = [
                {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["arguments"]}}
                for call in self.tool_calls
            ]
        if self.role == "tool":
            message["tool_call_id"] = self.tool_call_id or ""
        return message


def parse_messages(value: Any, role: str) -> list[ChatMessage]:
    """Return the messages in a value: a list, one message, an object that holds either, JSON or a `repr` of these, or plain text.

    `role` is the default author. A value without messages gives none.
    """
    return list(_parse_messages(value, role, depth=0))


def find_last(messages: Sequence[ChatMessage], role: str) -> int | None:
    """Return the position of the last message of a role; None if there is none."""
    return next((index for index in range(len(messages) - 1, -1, -1) if messages[index].role == role), None)


def _parse_messages(value: Any, role: str, depth: int) -> Iterator[ChatMessage]:
    if depth > 8:
        return
    if isinstance(value, str):
        yield from _parse_text(value, role, depth)
    elif isinstance(value, Mapping):
        yield from _parse_object(value, role, depth)
    elif isinstance(value, list | tuple):
        if value and all(isinstance(item, Mapping) and _is_part(item) for item in value):
            yield from _parse_message({"content": list(value)}, role)
            return
        for item in value:
            yield from _parse_messages(item, role, depth + 1)


def _parse_text(text: str, role: str, depth: int) -> Iterator[ChatMessage]:
    stripped = text.strip()
    if not stripped:
        return
    inner = parse_json(stripped)
    if isinstance(inner, str) and inner.startswith(("Msg(", "AssistantMsg(", "UserMsg(", "SystemMsg(")):
        try:
            inner = parse_repr(inner)
        except ValueError:
            return
    if isinstance(inner, str):
        yield ChatMessage(role=role, text=inner)
    elif isinstance(inner, Mapping | list):
        found = list(_parse_messages(inner, role, depth + 1))
        # JSON that is not a message is the text itself.
        yield from found or ([ChatMessage(role=role, text=stripped)] if inner and not _holds_no_words(inner) else [])


def _holds_no_words(value: Any) -> bool:
    """Whether JSON is mere bookkeeping: empty messages, the arguments of a call, or only an id."""
    if isinstance(value, list):
        return any(isinstance(item, Mapping) and _holds_no_words(item) for item in value)
    return bool(value.keys() & {"role", "parts", "content", "messages", "args", "kwargs"}) or value.keys() <= {"id", "type"}


def _parse_object(value: Mapping[str, Any], role: str, depth: int) -> Iterator[ChatMessage]:
    if isinstance(value.get("message"), Mapping):
        yield from _parse_object(value["message"], role, depth + 1)
        return
    if "role" in value or "parts" in value or "content" in value or "contents" in value or "tool_calls" in value:
        yield from _parse_message(value, role)
        return
    names = ("kwargs", *_SEVERAL, *_ONE, *(_SAID if role == "assistant" else ()))
    for inner in (value.get(name) for name in names):
        found = list(_parse_messages(inner, role, depth + 1)) if inner else []
        if found:
            yield from found
            return
    arguments = value.get("args")
    if isinstance(arguments, list | tuple) and arguments:
        yield from _parse_messages(arguments[0], role, depth + 1)


def _parse_message(value: Mapping[str, Any], otherwise: str) -> Iterator[ChatMessage]:
    role = str(value.get("role") or value.get("type") or otherwise).lower()
    role = _ROLES.get(role, role)
    role = role if role in ("system", "developer", "user", "assistant", "tool") else otherwise
    being = _MessageBuilder(role, value.get("tool_call_id") or value.get("id") if role == "tool" else None)
    content = next((value[name] for name in ("parts", "contents", "content") if value.get(name)), None)
    for part in content if isinstance(content, list | tuple) else [content]:
        yield from being.take(part)
    calls = value.get("tool_calls")
    for call in calls if isinstance(calls, list | tuple) else ():
        if isinstance(call, Mapping):
            inner = call.get("tool_call")
            being.calls.append(_call(inner if isinstance(inner, Mapping) else call))
    yield from being.finish()


class _MessageBuilder:
    """A message under construction. A tool's result in the middle ends it, and is a separate message."""

    def __init__(self, role: str, tool_call_id: Any) -> None:
        self._role, self._tool_call_id = role, str(tool_call_id) if tool_call_id else None
        self._texts: list[str] = []
        self.calls: list[Mapping[str, str]] = []
        self._not_text = False

    def take(self, part: Any) -> Iterator[ChatMessage]:
        if isinstance(part, Mapping) and isinstance(part.get("message_content"), Mapping):
            part = part["message_content"]
        if not isinstance(part, Mapping):
            if part is not None and part != "":
                self._texts.append(part if isinstance(part, str) else json.dumps(part, ensure_ascii=False, default=str))
            return
        kind = str(part.get("type") or "text")
        if kind in _RESULTS:
            yield from self.finish()
            result = next((part[name] for name in ("response", "result", "output", "content") if part.get(name) is not None), "")
            yield ChatMessage(
                role="tool", text=_to_text(result), tool_call_id=str(part.get("id") or part.get("tool_use_id") or "")
            )
        elif kind in _CALLS:
            self.calls.append(_call(part))
        elif kind in _THOUGHTS:
            return
        elif isinstance(words := part.get("text", part.get("content")), str):
            self._texts.append(words)
        else:
            self._not_text = True

    def finish(self) -> Iterator[ChatMessage]:
        text = "\n".join(self._texts)
        if text.strip() or self.calls or self._not_text:
            yield ChatMessage(
                role=self._role,
                text=text,
                tool_calls=tuple(self.calls),
                tool_call_id=self._tool_call_id,
                not_text=self._not_text,
            )
        self._texts, self.calls, self._not_text = [], [], False


def _call(call: Mapping[str, Any]) -> Mapping[str, str]:
    function = call.get("function")
    function = function if isinstance(function, Mapping) else call
    arguments: Any = next((function[name] for name in ("arguments", "input") if function.get(name) is not None), {})
    written = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, default=str)
    return {"id": str(call.get("id") or ""), "name": str(function.get("name") or ""), "arguments": written}


def _to_text(result: Any) -> str:
    """Return a tool's result as text: that of its text blocks, even if written as `repr`."""
    value: Any = parse_json(result) if isinstance(result, str) else result
    if isinstance(value, str):
        return _repr_to_text(value)
    if isinstance(value, Mapping):
        words = value.get("text", value.get("content"))
        return _to_text(words) if words is not None else json.dumps(value, ensure_ascii=False, default=str)
    if isinstance(value, list | tuple):
        return "\n".join(_to_text(item) for item in value)
    return json.dumps(value, ensure_ascii=False, default=str)


def _repr_to_text(text: str) -> str:
    """Return the text in `TextBlock(text='…')`, and any other text as it is."""
    if not (text.endswith(")") and text.partition("(")[0].isidentifier()):
        return text
    try:
        value = parse_repr(text)
    except ValueError:
        return text
    holds_words = isinstance(value, Mapping) and value.get("text", value.get("content")) is not None
    return _to_text(value) if holds_words else text


def _is_part(item: Mapping[str, Any]) -> bool:
    return "role" not in item and "message" not in item and isinstance(item.get("type"), str) and item["type"] not in _ROLES
