"""The abilities of a chat template, and messages adapted to them."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen

from astuner.model.rendering.system_messages import join_system_and_user, join_texts, place_system_messages
from astuner.model.rendering.tool_calls.sampled_json import parse_arguments

if TYPE_CHECKING:
    from astuner.contract.schema import Message

FIELDS = ("role", "content", "reasoning_content", "tool_calls", "name", "tool_call_id")
CALL_FIELDS = ("id", "type", "function")
FUNCTION_FIELDS = ("name", "arguments")
"""Templates may print a mapping verbatim, so its order is fixed."""

WriteCall = Callable[[str, str], str]
"""Writes the name and the arguments of a tool call, a JSON text, as the model does."""


@frozen(kw_only=True)
class TemplateShape:
    """What a template shows, and the form in which it takes tool calls and tool results."""

    inline_calls: bool
    """Without support for tool calls: they go into the text of the assistant."""
    text_arguments: bool
    """It takes the arguments of a call as JSON text, not as a mapping (DeepSeek)."""
    tools_as_user: bool
    """Without support for tool results: they go into a user message."""
    named_ids: bool
    """It shows calls by ids that hold the name: they get the form `functions.name:0`, unless they have it (Kimi)."""
    short_ids: bool
    """It takes only ids of nine letters or digits: others become ids of that form (Mistral)."""
    many_calls: bool
    """It shows more than one call of a message."""
    shows_tools: bool
    """It shows the tools that are offered."""
    shows_system: bool
    """It takes a system message; otherwise that goes into the user message after it."""
    many_systems: bool
    """It shows each of the system messages at the beginning; otherwise they become one."""
    late_systems: bool
    """It shows a later system message where it is sent; otherwise that goes into a user message."""
    user_after_user: bool
    """It takes a user message after another; otherwise they become one."""
    user_after_result: bool
    """It takes a user message after a tool result; otherwise that goes behind the result."""
    shows_names: bool
    """It shows the `name` of a user message."""
    knows_reasoning: bool
    """It shows reasoning, opens it in the header of an answer, or strips it from old answers."""
    called: str
    """A conversation with a tool call, as the template renders it; empty if it cannot."""
    call_example: str
    """The text of that call alone, where it replaces the text of an answer; empty if it does not."""

    def prepare(self, messages: Sequence[Message], write_call: WriteCall, tool_prompt: str = "") -> list[dict[str, Any]]:
        """Return messages in the template's form, with a description of the tools in the system message if one is given."""
        preparation = _Preparation(self, write_call)
        for message in place_system_messages(messages, many=self.many_systems, late=self.late_systems):
            preparation.add(message)
        found = preparation.messages
        if tool_prompt:
            found = _add_to_system(found, tool_prompt)
        return self._join_user_messages(found if self.shows_system else join_system_and_user(found))

    def _join_user_messages(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Join a user message with the message before it where the template would refuse or drop it."""
        if self.user_after_user and self.user_after_result:
            return messages
        found: list[dict[str, Any]] = []
        for message in messages:
            before = found[-1]["role"] if found and message["role"] == "user" else ""
            if (before == "user" and not self.user_after_user) or (before == "tool" and not self.user_after_result):
                found[-1] = {**found[-1], "content": join_texts(found[-1]["content"], message["content"])}
            else:
                found.append(message)
        return found

    def with_calls(self, message: Message, write_call: WriteCall) -> dict[str, Any]:
        """Return a message with its tool calls in the template's form, possibly inside the text."""
        calls = message.get("tool_calls")
        if not calls:
            return _order_fields(message, FIELDS)
        if self.inline_calls:
            blocks = [write_call(call["function"]["name"], call["function"]["arguments"]) for call in calls]
            content = "\n".join([message["content"], *blocks] if message["content"] else blocks)
            kept = {key: value for key, value in message.items() if key != "tool_calls"}
            return {**_order_fields(kept, FIELDS), "content": content}
        read: Callable[[str], Any] = str if self.text_arguments else parse_arguments
        ordered = [
            {
                **_order_fields(call, CALL_FIELDS),
                "function": {
                    **_order_fields(call["function"], FUNCTION_FIELDS),
                    "arguments": read(call["function"]["arguments"]),
                },
            }
            for call in calls
        ]
        return {**_order_fields(message, FIELDS), "tool_calls": ordered}


@define(eq=False)
class _Preparation:
    """A conversation in a template's form, built message by message."""

    shape: TemplateShape
    write_call: WriteCall
    messages: list[dict[str, Any]] = field(factory=list)
    """In the template's form."""
    _ids: dict[str, list[str]] = field(factory=lambda: defaultdict(list))
    _calls: int = 0

    def add(self, message: Message) -> None:
        """Add the next message."""
        if message["role"] == "tool" and self.shape.tools_as_user:
            text = f"<tool_response>\n{message['content']}\n</tool_response>"
            # Templates that insist on alternating roles take parallel results as one message.
            if self.messages and self.messages[-1].get("results"):
                self.messages[-1] = {**self.messages[-1], "content": f"{self.messages[-1]['content']}\n{text}"}
            else:
                self.messages.append({"role": "user", "content": text, "results": True})
            return
        found = self.shape.with_calls(message, self.write_call)
        if (self.shape.named_ids or self.shape.short_ids) and found.get("tool_calls"):
            # Results belong to the calls before them: an id may recur later.
            self._ids = defaultdict(list)
            for call in found["tool_calls"]:
                written = self._name(call) if self.shape.named_ids else _shorten(call["id"])
                self._ids[call["id"]].append(written)
                call["id"] = written
                self._calls += 1
        elif waiting := self._ids.get(found.get("tool_call_id") or ""):
            found["tool_call_id"] = waiting[0] if len(waiting) == 1 else waiting.pop(0)
        self.messages.append(found)

    def _name(self, call: Mapping[str, Any]) -> str:
        """Return an id that holds the name: the model's own, if the call has it."""
        prefix = f"functions.{call['function']['name']}:"
        return str(call["id"]) if re.fullmatch(rf"{re.escape(prefix)}\d+", call["id"]) else f"{prefix}{self._calls}"


def _shorten(id_: str) -> str:
    return id_ if re.fullmatch("[A-Za-z0-9]{9}", id_) else hashlib.sha256(id_.encode(errors="replace")).hexdigest()[:9]


def _add_to_system(messages: Sequence[dict[str, Any]], text: str) -> list[dict[str, Any]]:
    """Put a text behind the first system message, or into one of its own."""
    first = messages[0]
    if first["role"] != "system":
        return [{"role": "system", "content": text}, *messages]
    return [{**first, "content": join_texts(first["content"], text)}, *messages[1:]]


def _order_fields(mapping: Mapping[str, Any], fields: Sequence[str]) -> dict[str, Any]:
    return {**{key: mapping[key] for key in fields if key in mapping}, **mapping}
