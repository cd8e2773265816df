"""What a chat template can show, found by trying it once, and messages put into a shape that it does show."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import frozen

from astuner.gateway.messages import arguments_of

if TYPE_CHECKING:
    from astuner.schema import Message

PROBE = "qzprobe"
"""A word that no template contains."""

USER: Mapping[str, Any] = {"role": "user", "content": "x"}

Apply = Callable[[Sequence[Mapping[str, Any]]], str]
"""Renders messages; raises what it likes when it refuses them."""


@frozen(kw_only=True)
class TemplateShape:
    """What a template does with tool calls and tool results."""

    inline_calls: bool
    """It knows no tool calls: they go into the text of the assistant."""
    tools_as_user: bool
    """It knows no tool results: they go into a user message."""
    named_ids: bool
    """It shows the id of a call and not its name: ids get the form `functions.name:0` that holds the name (Kimi)."""
    many_calls: bool
    """It shows more than one call of a message."""
    called: str
    """A conversation in which a tool is called, as the template writes it; empty where it cannot."""

    def prepared(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Return messages as the template takes them."""
        prepared: list[dict[str, Any]] = []
        ids: dict[str, list[str]] = defaultdict(list)
        calls = 0
        for message in messages:
            if message["role"] == "tool" and self.tools_as_user:
                text = f"<tool_response>\n{message['content']}\n</tool_response>"
                # Templates that insist on alternating roles take parallel results as one message.
                if prepared and prepared[-1].get("results"):
                    prepared[-1]["content"] += f"\n{text}"
                else:
                    prepared.append({"role": "user", "content": text, "results": True})
                continue
            found = self._with_calls(message) if message.get("tool_calls") else dict(message)
            if self.named_ids and found.get("tool_calls"):
                # Results belong to the calls before them: an id may come again later.
                ids = defaultdict(list)
                for call in found["tool_calls"]:
                    named = f"functions.{call['function']['name']}:{calls}"
                    ids[call["id"]].append(named)
                    call["id"] = named
                    calls += 1
            elif waiting := ids.get(found.get("tool_call_id") or ""):
                found["tool_call_id"] = waiting[0] if len(waiting) == 1 else waiting.pop(0)
            prepared.append(found)
        return prepared

    def _with_calls(self, message: Message) -> dict[str, Any]:
        calls = [
            {**call, "function": {**call["function"], "arguments": arguments_of(call["function"]["arguments"])}}
            for call in message["tool_calls"]
        ]
        if not self.inline_calls:
            return {**message, "tool_calls": calls}
        functions = [{key: call["function"][key] for key in ("name", "arguments")} for call in calls]
        blocks = [f"<tool_call>\n{json.dumps(function, ensure_ascii=False)}\n</tool_call>" for function in functions]
        content = "\n".join([message["content"], *blocks] if message["content"] else blocks)
        return {**{key: value for key, value in message.items() if key != "tool_calls"}, "content": content}


def find_shape(apply: Apply) -> TemplateShape:
    """Try a template on a few conversations."""

    def shown(*messages: Mapping[str, Any]) -> str:
        try:
            return apply(messages)
        except Exception:  # noqa: BLE001 - the template refuses what is tried here, which is the answer
            return ""

    def calling(*calls: Mapping[str, Any], **more: Any) -> str:
        results = [_result(call["id"]) for call in calls]
        return shown(USER, {"role": "assistant", "content": "", "tool_calls": list(calls), **more}, *results, USER)

    called = calling(_call(PROBE, "123456789"))
    named = calling(_call(PROBE, f"functions.{PROBE}:0"))
    named_ids = PROBE not in called and PROBE in named
    first, second = ("functions.x:0", f"functions.{PROBE}:1") if named_ids else ("123456789", "123456780")
    called = named if named_ids else called
    inline = PROBE not in called
    call = _call("x", first)
    result = {**_result(first), "content": PROBE}
    asked = {"role": "assistant", "content": "x"} if inline else {"role": "assistant", "content": "", "tool_calls": [call]}

    return TemplateShape(
        inline_calls=inline,
        tools_as_user=PROBE not in shown(USER, asked, result),
        named_ids=named_ids,
        many_calls=inline or PROBE in calling(call, _call(PROBE, second)),
        called="" if inline else called,
    )


def _call(name: str, id_: str) -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": {"q": "v"}}}


def _result(id_: str) -> dict[str, Any]:
    return {"role": "tool", "content": "x", "tool_call_id": id_, "name": "x"}
