"""Tools in a body of Gemini's API: functions that the agent runs, and tools that Google runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from astuner.model.gateway.wire_apis import bad_request, format_value, read_strings, read_text
from astuner_wire_apis.gemini_contents import rename

MODES = {"": "auto", "MODE_UNSPECIFIED": "auto", "AUTO": "auto", "VALIDATED": "auto", "ANY": "required", "NONE": "none"}
"""Modes of function calling, and their names in chat completions."""

TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})


def read_tools(tools: Sequence[Any]) -> tuple[list[Mapping[str, Any]], tuple[str, ...]]:
    """Return the functions as chat completions have them, and the names of the tools that Google would run.

    Raises ApiError (400).
    """
    own: list[Mapping[str, Any]] = []
    hosted: list[str] = []
    for number, tool in enumerate(tools):
        place = f"tools[{number}]"
        if not isinstance(tool, dict):
            raise bad_request(f"{place} must be an object.", place)
        for name, value in rename(tool).items():
            if name != "functionDeclarations":
                hosted.append(name)
                continue
            if not isinstance(value, list):
                raise bad_request(f"{place}.{name} must be a list.", f"{place}.{name}")
            own += [_read_function(function, f"{place}.{name}[{index}]") for index, function in enumerate(value)]
    return own, tuple(dict.fromkeys(hosted))


def read_tool_config(config: Mapping[str, Any], tools: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Return `tool_choice` of chat completions, and the functions that it may choose from; raises ApiError (400)."""
    given = config.get("functionCallingConfig") or {}
    if not isinstance(given, dict):
        raise bad_request("'toolConfig.functionCallingConfig' must be an object.", "toolConfig.functionCallingConfig")
    calling = rename(given)
    mode = read_text(calling, "mode") or ""
    if mode.upper() not in MODES:
        known = ", ".join(name for name in MODES if name)
        place = "toolConfig.functionCallingConfig.mode"
        raise bad_request(f"'{place}' is {format_value(mode)}; known: {known}.", place)
    allowed = read_strings(calling, "allowedFunctionNames")
    names = [tool["function"]["name"] for tool in tools]
    for name in allowed:
        if name not in names:
            place = "toolConfig.functionCallingConfig.allowedFunctionNames"
            raise bad_request(f"'{place}' has {format_value(name)}; the functions are: {', '.join(names) or 'none'}.", place)
    choice = MODES[mode.upper()]
    # A tool that Google would run may be all that there was to choose from.
    return ({"tool_choice": choice} if names and mode else {}), allowed


def to_json_schema(schema: Any) -> Any:
    """Return a schema with its types in lower case, which Google's own form writes in upper case, and `nullable` as a type."""
    if isinstance(schema, list):
        return [to_json_schema(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found: dict[str, Any] = {}
    for name, value in schema.items():
        if name in ("properties", "$defs", "defs", "definitions") and isinstance(value, dict):
            found[name] = {key: to_json_schema(inner) for key, inner in value.items()}
        elif name in ("enum", "const", "default", "example", "examples", "required", "description", "title"):
            found[name] = value
        elif name == "type" and isinstance(value, str) and value.lower() in TYPES:
            found[name] = value.lower()
        elif name not in ("nullable", "propertyOrdering"):
            found[name] = to_json_schema(value)
    if schema.get("nullable") is True and isinstance(found.get("type"), str):
        found["type"] = [found["type"], "null"]
    return found


def _read_function(function: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(function, dict):
        raise bad_request(f"{place} must be an object.", place)
    given = rename(function)
    name, description = given.get("name"), given.get("description")
    if not isinstance(name, str) or not name:
        raise bad_request(f"{place} needs a name.", f"{place}.name")
    if not isinstance(description, str | None):
        raise bad_request(f"{place}.description must be a string.", f"{place}.description")
    key = "parametersJsonSchema" if given.get("parametersJsonSchema") else "parameters"
    schema = given.get(key) or {"type": "object", "properties": {}}
    if not isinstance(schema, dict):
        raise bad_request(f"{place}.{key} must be an object.", f"{place}.{key}")
    described = {} if description is None else {"description": description}
    return {"type": "function", "function": {"name": name, **described, "parameters": to_json_schema(schema)}}
