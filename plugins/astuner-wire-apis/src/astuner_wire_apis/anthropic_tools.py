"""Tools of Anthropic's Messages API: the agent's own, those that Anthropic describes, and those that Anthropic runs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from astuner.model.gateway.wire_apis import bad_request, format_value, read_flag

CHOICES = {"auto": "auto", "any": "required", "none": "none"}
"""Types of `tool_choice` without a tool name, and their names in chat completions."""

HOSTED = re.compile(r"(web_search|web_fetch|code_execution|advisor)_\d{8}|tool_search_tool_\w+|mcp_toolset")
"""Types of tools that run on Anthropic's servers."""

COMPUTER = re.compile(r"computer_\d{8}")

DESCRIBED: Mapping[str, Mapping[str, Any]] = {
    kind: {"name": tool["name"], "description": tool["description"], "parameters": tool["parameters"]}
    for tool in json.loads(resources.files(__package__).joinpath("anthropic_tools.json").read_text(encoding="utf-8"))
    for kind in tool["types"]
}
"""Tools that the agent runs and whose schema Anthropic's models know, as functions by type."""


def read_tools(tools: Sequence[Any]) -> tuple[list[Mapping[str, Any]], tuple[str, ...]]:
    """Return the tools that the agent runs as chat completions have them, and the types of those that Anthropic would run.

    Raises ApiError (400) for any other.
    """
    own: list[Mapping[str, Any]] = []
    hosted: list[str] = []
    for number, tool in enumerate(tools):
        place = f"tools[{number}]"
        if not isinstance(tool, dict):
            raise bad_request(f"{place} must be an object.", place)
        kind = tool.get("type")
        if isinstance(kind, str) and HOSTED.fullmatch(kind):
            hosted.append(kind)
        else:
            own.append(_read_tool(tool, place))
    return own, tuple(dict.fromkeys(hosted))


def read_tool_choice(
    choice: Mapping[str, Any], tools: Sequence[Mapping[str, Any]], hosted: Sequence[Any] = ()
) -> Mapping[str, Any]:
    """Return `tool_choice` and `parallel_tool_calls`; raises ApiError (400).

    `hosted` are the names of the tools that are left out: a choice of one of them is left to the model.
    """
    if not choice:
        return {}
    kind = choice.get("type")
    wanted: Any = CHOICES.get(kind) if isinstance(kind, str) else None
    names = [tool["function"]["name"] for tool in tools]
    if kind == "tool" and choice.get("name") in hosted and choice.get("name") not in names:
        wanted = "auto"
    elif kind == "tool":
        if choice.get("name") not in names:
            known = ", ".join(names) or "none"
            raise bad_request(
                f"'tool_choice.name' is {format_value(choice.get('name'))}; the tools are: {known}.", "tool_choice.name"
            )
        wanted = {"type": "function", "function": {"name": choice["name"]}}
    if wanted is None:
        raise bad_request(f"'tool_choice.type' is {format_value(kind)}; known: {', '.join(CHOICES)}, tool.", "tool_choice.type")
    if wanted == "required" and hosted and not names:
        wanted = "auto"
    return {"tool_choice": wanted, "parallel_tool_calls": not read_flag(choice, "disable_parallel_tool_use", False)}


def _read_tool(tool: Mapping[str, Any], place: str) -> Mapping[str, Any]:
    """Return a tool that the agent runs; raises ApiError (400) for one that it cannot."""
    kind = tool.get("type")
    if isinstance(kind, str) and kind in DESCRIBED:
        given = tool.get("name", DESCRIBED[kind]["name"])
        if not isinstance(given, str) or not given:
            raise bad_request(f"{place}.name must be a string, not {format_value(given)}.", f"{place}.name")
        return {"type": "function", "function": {**DESCRIBED[kind], "name": given}}
    if kind not in (None, "custom"):
        why = (
            "which is answered by screenshots, and images are not served"
            if isinstance(kind, str) and COMPUTER.fullmatch(kind)
            else f"which is not known here; known are custom, {', '.join(DESCRIBED)}, and the tools that Anthropic's servers run"
        )
        raise bad_request(
            f"{place}.type is {format_value(kind)}, {why}. Declare your own tool with a name, a description and an input_schema.",
            f"{place}.type",
        )
    if not isinstance(tool.get("name"), str) or not tool["name"] or not isinstance(tool.get("input_schema"), dict):
        raise bad_request(f"{place} needs a name and an input_schema.", place)
    if not isinstance(tool.get("description"), str | None):
        raise bad_request(f"{place}.description must be a string.", f"{place}.description")
    function = {"name": tool["name"], "parameters": tool["input_schema"]}
    if tool.get("description") is not None:
        function["description"] = tool["description"]
    return {"type": "function", "function": function}
