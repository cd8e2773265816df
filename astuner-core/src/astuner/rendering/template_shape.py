"""The abilities of a chat template, found by trying it once, and messages adapted to them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen

from astuner.rendering.tool_calls.sampled_json import parse_arguments

if TYPE_CHECKING:
    from astuner.schema import Message

PROBE = "qzprobe"
"""A word that no template contains."""

USER: Mapping[str, Any] = {"role": "user", "content": "x"}

FIELDS = ("role", "content", "reasoning_content", "tool_calls", "name", "tool_call_id")
CALL_FIELDS = ("id", "type", "function")
FUNCTION_FIELDS = ("name", "arguments")
"""Templates may print a mapping verbatim, so its order is fixed."""

Apply = Callable[[Sequence[Mapping[str, Any]]], str]
"""Renders messages; may raise anything to refuse them."""


@frozen(kw_only=True)
class TemplateShape:
    """What a template does with tool calls and tool results."""

    inline_calls: bool
    """Without support for tool calls: they go into the text of the assistant."""
    tools_as_user: bool
    """Without support for tool results: they go into a user message."""
    named_ids: bool
    """It shows the id of a call but not its name: ids get the form `functions.name:0` that holds the name (Kimi)."""
    many_calls: bool
    """It shows more than one call of a message."""
    called: str
    """A conversation with a tool call, as the template renders it; empty if it cannot."""

    def prepare(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Return messages in the template's form."""
        preparation = _Preparation(self)
        for message in messages:
            preparation.add(message)
        return preparation.messages

    def with_calls(self, message: Message) -> dict[str, Any]:
        """Return a message with its tool calls in the template's form, possibly inside the text."""
        if not message.get("tool_calls"):
            return _order_fields(message, FIELDS)
        calls = [
            {
                **_order_fields(call, CALL_FIELDS),
                "function": {
                    **_order_fields(call["function"], FUNCTION_FIELDS),
                    "arguments": parse_arguments(call["function"]["arguments"]),
                },
            }
            for call in message["tool_calls"]
        ]
        if not self.inline_calls:
            return {**_order_fields(message, FIELDS), "tool_calls": calls}
        functions = [{key: call["function"][key] for key in ("name", "arguments")} for call in calls]
        blocks = [f"<tool_call>\n{json.dumps(function, ensure_ascii=False)}\n</tool_call>" for function in functions]
        content = "\n".join([message["content"], *blocks] if message["content"] else blocks)
        kept = {key: value for key, value in message.items() if key != "tool_calls"}
        return {**_order_fields(kept, FIELDS), "content": content}


@define(eq=False)
class _Preparation:
    """A conversation in a template's form, built message by message."""

    shape: TemplateShape
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
        found = self.shape.with_calls(message)
        if self.shape.named_ids and found.get("tool_calls"):
            # Results belong to the calls before them: an id may recur later.
            self._ids = defaultdict(list)
            for call in found["tool_calls"]:
                named = f"functions.{call['function']['name']}:{self._calls}"
                self._ids[call["id"]].append(named)
                call["id"] = named
                self._calls += 1
        elif waiting := self._ids.get(found.get("tool_call_id") or ""):
            found["tool_call_id"] = waiting[0] if len(waiting) == 1 else waiting.pop(0)
        self.messages.append(found)


def find_shape(apply: Apply) -> TemplateShape:
    """Try a template on a few conversations."""

    def render(*messages: Mapping[str, Any]) -> str:
        try:
            return apply(messages)
        except Exception:  # noqa: BLE001 - the template does not support what is tried here
            return ""

    def render_calls(*calls: Mapping[str, Any], **more: Any) -> str:
        results = [_result(call["id"]) for call in calls]
        return render(USER, {"role": "assistant", "content": "", "tool_calls": list(calls), **more}, *results, USER)

    called = render_calls(_call(PROBE, "123456789"))
    named = render_calls(_call(PROBE, f"functions.{PROBE}:0"))
    named_ids = PROBE not in called and PROBE in named
    first, second = ("functions.x:0", f"functions.{PROBE}:1") if named_ids else ("123456789", "123456780")
    called = named if named_ids else called
    inline = PROBE not in called
    call = _call("x", first)
    result = {**_result(first), "content": PROBE}
    assistant = {"role": "assistant", "content": "x"} if inline else {"role": "assistant", "content": "", "tool_calls": [call]}

    return TemplateShape(
        inline_calls=inline,
        tools_as_user=PROBE not in render(USER, assistant, result),
        named_ids=named_ids,
        many_calls=inline or PROBE in render_calls(call, _call(PROBE, second)),
        called="" if inline else called,
    )


def _order_fields(mapping: Mapping[str, Any], fields: Sequence[str]) -> dict[str, Any]:
    return {**{key: mapping[key] for key in fields if key in mapping}, **mapping}


def _call(name: str, id_: str) -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": {"q": "v"}}}


def _result(id_: str) -> dict[str, Any]:
    return {"role": "tool", "content": "x", "tool_call_id": id_, "name": "x"}
