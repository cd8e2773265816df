"""The tools of a chat completion: functions, and custom tools, which the model calls as functions of one text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from attrs import frozen

from astuner.model.gateway.wire_apis.fields import format_value, read_flag
from astuner.model.rendering.errors import bad_request
from astuner.model.rendering.tool_calls.sampled_json import parse_arguments

AS_SAMPLED = "_raw"
"""Ends the id of a call whose arguments are not one text: its input is the arguments that were sampled."""

Tool = Mapping[str, Any]


@frozen(kw_only=True)
class ChosenTools:
    """The tools that the model may call."""

    tools: tuple[Tool, ...]
    """As functions."""
    custom: tuple[str, ...]
    """The names of those that are custom tools."""
    choice: Any
    """`auto`, `none`, `required`, or a function by name."""
    narrowed: bool
    """Whether they are not what the body says, word for word."""

    @property
    def constraint(self) -> Mapping[str, Any] | None:
        """The grammar that the choice asks for; raises ApiError (400) for one that cannot be."""
        if self.choice in ("auto", "none"):
            return None
        if not self.tools:
            raise bad_request("'tool_choice' is set, but there are no 'tools'.", "tool_choice")
        named = self.tools if self.choice == "required" else _find_named(self.choice, self.tools)
        if not named:
            known = ", ".join(tool["function"]["name"] for tool in self.tools)
            raise bad_request(
                f"'tool_choice' is {self.choice!r}; use auto, none, required, or name one of: {known}.", "tool_choice"
            )
        return {"type": "tool_call", "tools": named}


def choose_tools(given: Sequence[Any], choice: Any) -> ChosenTools:
    """Read the tools, and which of them may be called; raises ApiError (400).

    With a choice of `allowed_tools` only those are offered: the model never sees the others.
    """
    tools = tuple(_read_tool(tool, f"tools[{place}]") for place, tool in enumerate(given))
    custom = tuple(tool["custom"]["name"] for tool in given if tool.get("type") == "custom")
    narrowed = bool(custom)
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        # The Responses API has the fields of the inner object in the outer one.
        inner = choice.get("allowed_tools")
        allowed = inner if isinstance(inner, dict) else choice
        listed = allowed.get("tools")
        found = [_find_named(tool, tools) for tool in listed] if isinstance(listed, list) else []
        if not found or not all(found) or allowed.get("mode") not in ("auto", "required"):
            known = ", ".join(tool["function"]["name"] for tool in tools) or "none"
            raise bad_request(
                f"'tool_choice' is {format_value(choice)}; 'allowed_tools' needs a 'mode', auto or required, and a list "
                f"'tools' of tools that are among: {known}.",
                "tool_choice",
            )
        tools = tuple(tool for tool in tools if any(tool in named for named in found))
        choice, narrowed = allowed["mode"], True
    elif isinstance(choice, dict) and choice.get("type") == "custom" and _find_named(choice, tools):
        choice = {"type": "function", "function": {"name": choice["custom"]["name"]}}
    return ChosenTools(tools=tools, custom=custom, choice=choice, narrowed=narrowed)


def describe_custom(tool: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Return the description and the parameters of a tool that takes text, as a function; a grammar is not enforced.

    Raises ApiError (400).
    """
    wanted, description = tool.get("format"), tool.get("description")
    if wanted is not None and (not isinstance(wanted, dict) or wanted.get("type") not in ("text", "grammar")):
        raise bad_request(f"{place}.format must be an object of type text or grammar.", f"{place}.format")
    parts = [description] if isinstance(description, str) and description else []
    if wanted is not None and wanted["type"] == "grammar":
        # Chat completions have an object `grammar` where the Responses API has its fields.
        rules = wanted.get("grammar", wanted)
        texts = [rules.get(key) for key in ("syntax", "definition")] if isinstance(rules, dict) else [None]
        if not all(isinstance(text, str) for text in texts):
            raise bad_request(f"{place}.format needs 'syntax' and 'definition', both strings.", f"{place}.format")
        parts.append(_load_texts()["grammar"].format(*texts))
    properties = {"input": {"type": "string", "description": _load_texts()["input"]}}
    parameters = {"type": "object", "properties": properties, "required": ["input"], "additionalProperties": False}
    # Some templates want a description.
    return {"description": "\n\n".join(parts), "parameters": parameters}


def write_custom_call(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return the call of a function as that of a custom tool."""
    name, text = call["function"]["name"], call["function"]["arguments"]
    found = parse_arguments(text)
    fits = isinstance(found, dict) and found.keys() == {"input"} and isinstance(found["input"], str)
    shown = found["input"] if fits else text
    return {"id": call["id"] if fits else f"{call['id']}{AS_SAMPLED}", "type": "custom", "custom": {"name": name, "input": shown}}


def read_custom_calls(messages: Any) -> Any:
    """Return messages in which the calls of custom tools are those of functions again; the same object if there are none."""
    if not isinstance(messages, list) or not any(map(_find_custom, messages)):
        return messages
    found = []
    for place, message in enumerate(messages):
        if calls := _find_custom(message):
            message = {
                **message,
                "tool_calls": [_read_call(one, f"messages[{place}]") if one in calls else one for one in message["tool_calls"]],
            }
        elif isinstance(message, dict) and isinstance(message.get("tool_call_id"), str):
            message = {**message, "tool_call_id": message["tool_call_id"].removesuffix(AS_SAMPLED)}
        found.append(message)
    return found


def continues_answer(messages: Sequence[Mapping[str, Any]], body: Mapping[str, Any]) -> bool:
    """Whether the last message is the beginning of the answer: it is the assistant's, and the body asks for no new turn."""
    new_turn = read_flag(body, "add_generation_prompt", False) and not read_flag(body, "continue_final_message", False)
    return messages[-1]["role"] == "assistant" and not new_turn


@cache
def _load_texts() -> Mapping[str, str]:
    found: Mapping[str, str] = json.loads(files(__package__).joinpath("custom_tool.json").read_text(encoding="utf-8"))
    return found


def _read_tool(tool: Any, place: str) -> Tool:
    if isinstance(tool, dict) and tool.get("type") == "custom":
        inner = tool.get("custom")
        if not isinstance(inner, dict) or not isinstance(inner.get("name"), str):
            raise bad_request(f"{place} must be a custom tool with a name.", place)
        return {"type": "function", "function": {"name": inner["name"], **describe_custom(inner, f"{place}.custom")}}
    function = tool.get("function") if isinstance(tool, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise bad_request(f"{place} must be a function or a custom tool, with a name.", place)
    return tool  # type: ignore[no-any-return]  # a parsed body


def _find_named(choice: Any, tools: Sequence[Tool]) -> tuple[Tool, ...]:
    """Return the tools that an object `{"type": "function", "function": {"name": …}}`, or one of a custom tool, names."""
    inner = choice.get(choice.get("type")) if isinstance(choice, dict) and isinstance(choice.get("type"), str) else None
    inner = choice.get("function", choice) if inner is None and isinstance(choice, dict) else inner
    name = inner.get("name") if isinstance(inner, dict) else None
    return tuple(tool for tool in tools if tool["function"]["name"] == name)


def _find_custom(message: Any) -> list[Any]:
    calls = message.get("tool_calls") if isinstance(message, dict) else None
    return [call for call in calls if isinstance(call, dict) and call.get("type") == "custom"] if isinstance(calls, list) else []


def _read_call(call: Mapping[str, Any], place: str) -> dict[str, Any]:
    inner, call_id = call.get("custom"), call.get("id")
    if not isinstance(inner, dict) or not isinstance(inner.get("name"), str) or not isinstance(inner.get("input"), str):
        raise bad_request(f"{place}: the call of a custom tool needs custom.name and custom.input, both strings.", place)
    sampled = isinstance(call_id, str) and call_id.endswith(AS_SAMPLED)
    text = inner["input"] if sampled else json.dumps({"input": inner["input"]}, ensure_ascii=False)
    shown = call_id.removesuffix(AS_SAMPLED) if isinstance(call_id, str) else call_id
    return {"id": shown, "type": "function", "function": {"name": inner["name"], "arguments": text}}
