"""Tools of Anthropic's Messages API as those of chat completions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from astuner.gateway.dialects.fields import format_value, read_flag
from astuner.rendering.errors import bad_request

CHOICES = {"auto": "auto", "any": "required", "none": "none"}
"""Types of `tool_choice` without a tool name, and their names in chat completions."""


def tool_choice(choice: Mapping[str, Any], tools: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return `tool_choice` and `parallel_tool_calls`; raises ApiError (400)."""
    if not choice:
        return {}
    kind = choice.get("type")
    wanted: Any = CHOICES.get(kind) if isinstance(kind, str) else None
    if kind == "tool":
        names = [tool["function"]["name"] for tool in tools]
        if choice.get("name") not in names:
            known = ", ".join(names) or "none"
            raise bad_request(
                f"'tool_choice.name' is {format_value(choice.get('name'))}; the tools are: {known}.", "tool_choice.name"
            )
        wanted = {"type": "function", "function": {"name": choice["name"]}}
    if wanted is None:
        raise bad_request(f"'tool_choice.type' is {format_value(kind)}; known: {', '.join(CHOICES)}, tool.", "tool_choice.type")
    return {"tool_choice": wanted, "parallel_tool_calls": not read_flag(choice, "disable_parallel_tool_use", False)}


def read_tool(tool: Any, place: str) -> Mapping[str, Any]:
    """Return a tool; raises ApiError (400) for one that the agent does not run itself."""
    if not isinstance(tool, dict):
        raise bad_request(f"{place} must be an object.", place)
    if tool.get("type") not in (None, "custom"):
        raise bad_request(
            f"{place}.type is {format_value(tool['type'])}, which only Anthropic's models support; "
            "declare your own tool with a name, a description and an input_schema.",
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
