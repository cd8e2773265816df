"""The detector `wrong_toolcall`: a tool call that cannot be read, or whose arguments its tool would not accept."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from astuner.contract.protocols import Sampled

LONGEST_QUOTE = 200
"""Characters of arguments, or of an unreadable answer, that are shown."""


class WrongToolcall:
    """Finds malformed calls, calls of tools that were not offered, and arguments without the fields that the tool requires.

    Of the tool's JSON schema only `required` and `type: object` are checked, also inside `properties`. A call cut off by the
    token limit is not malformed, and without offered tools text that looks like a call is text.
    """

    def look(self, output: Sampled) -> str | None:
        """Return what is wrong with the first wrong call."""
        reply = output.call.reply
        unreadable = reply.get("malformed_tool_call", 0)
        if unreadable and output.call.finish_reason == "stop":
            return f"{unreadable} tool call{'s' if unreadable > 1 else ''} that cannot be read: {_quote(output.text)}"
        offered = {name: schema for name, schema in map(_name_and_schema, output.tools) if name}
        for call in reply.get("tool_calls") or ():
            name, arguments = call["function"]["name"], call["function"]["arguments"]
            if name not in offered:
                return f"calls the tool {name!r}, which was not offered; offered: {', '.join(sorted(offered)) or 'none'}"
            problem = next(_find_problems(_parse(arguments), {"type": "object", **offered[name]}, "arguments"), None)
            if problem is not None:
                return f"calls {name!r} with {_quote(arguments)}: {problem}"
        return None


def _name_and_schema(tool: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    function = tool.get("function") or {}
    return function.get("name", ""), function.get("parameters") or {}


def _parse(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return None


def _find_problems(value: Any, schema: Any, place: str) -> Iterator[str]:
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        return
    if not isinstance(value, dict):
        yield f"{place}: not a JSON object"
        return
    missing = [name for name in schema.get("required") or () if name not in value]
    if missing:
        yield f"{place}: missing {', '.join(map(repr, missing))}"
    for name, inner in (schema.get("properties") or {}).items():
        if name in value:
            yield from _find_problems(value[name], inner, f"{place}.{name}")


def _quote(text: str) -> str:
    return repr(text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}…")
