"""Tools of Anthropic's Messages API: the agent's own, those that Anthropic describes, and those that Anthropic runs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from astuner.gateway.dialects.fields import format_value, read_flag
from astuner.rendering.errors import bad_request

CHOICES = {"auto": "auto", "any": "required", "none": "none"}
"""Types of `tool_choice` without a tool name, and their names in chat completions."""

HOSTED = re.compile(r"(web_search|web_fetch|code_execution|advisor)_\d{8}|tool_search_tool_\w+|mcp_toolset")
"""Types of tools that run on Anthropic's servers."""

COMPUTER = re.compile(r"computer_\d{8}")

_TEXT = {"type": "string"}
_LINES = {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2}


def _make_editor(commands: Sequence[str], **more: Any) -> Mapping[str, Any]:
    """Return a tool that views and changes text files by commands."""
    known = {
        "path": {**_TEXT, "description": "Absolute path of a file or directory."},
        "view_range": {**_LINES, "description": "For `view`: the first and the last line, from 1; -1 is the end of the file."},
        "file_text": {**_TEXT, "description": "For `create`: the content of the file."},
        "old_str": {**_TEXT, "description": "For `str_replace`: the text to replace; it must be unique in the file."},
        "new_str": {**_TEXT, "description": "For `str_replace`: the text that takes its place."},
        "insert_line": {"type": "integer", "description": "For `insert`: the line after which to insert; 0 is the beginning."},
    }
    return {
        "type": "object",
        "properties": {"command": {"type": "string", "enum": list(commands)}, **known, **more},
        "required": ["command", *(() if "old_path" in more else ("path",))],
    }


_INSERTED = {**_TEXT, "description": "For `insert`: the text to insert."}
_VIEWS = ("view", "create", "str_replace", "insert")
_BASH = {
    "type": "object",
    "properties": {
        "command": {**_TEXT, "description": "The command to run; required unless the shell is restarted."},
        "restart": {"type": "boolean", "description": "Restart the shell."},
    },
}
_FIRST_EDITOR = _make_editor((*_VIEWS, "undo_edit"))
_EDITOR = _make_editor(_VIEWS, insert_text=_INSERTED)
_MEMORY = _make_editor(
    (*_VIEWS, "delete", "rename"),
    insert_text=_INSERTED,
    old_path={**_TEXT, "description": "For `rename`: the path to rename."},
    new_path={**_TEXT, "description": "For `rename`: its new path."},
)

DESCRIBED: Mapping[str, tuple[str, str, Mapping[str, Any]]] = {
    "bash_20241022": ("bash", "Run a command in a shell that keeps its state.", _BASH),
    "bash_20250124": ("bash", "Run a command in a shell that keeps its state.", _BASH),
    "text_editor_20241022": ("str_replace_editor", "View, create and edit text files.", _FIRST_EDITOR),
    "text_editor_20250124": ("str_replace_editor", "View, create and edit text files.", _FIRST_EDITOR),
    "text_editor_20250429": ("str_replace_based_edit_tool", "View, create and edit text files.", _EDITOR),
    "text_editor_20250728": ("str_replace_based_edit_tool", "View, create and edit text files.", _EDITOR),
    "memory_20250818": ("memory", "View and change the files in /memories, which outlast this conversation.", _MEMORY),
}
"""Tools that the agent runs and whose schema Anthropic's models know: name, description and schema by type."""


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
        name, description, schema = DESCRIBED[kind]
        given = tool.get("name", name)
        if not isinstance(given, str) or not given:
            raise bad_request(f"{place}.name must be a string, not {format_value(given)}.", f"{place}.name")
        return {"type": "function", "function": {"name": given, "description": description, "parameters": schema}}
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
