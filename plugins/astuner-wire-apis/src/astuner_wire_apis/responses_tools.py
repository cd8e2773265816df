"""The tools of `/v1/responses`, which the model calls as functions.

The agent runs all of them: functions, custom tools, shells, patches and its own search for tools. Those that OpenAI's
servers would run are left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from attrs import define, field, frozen

from astuner.model.gateway.wire_apis import bad_request, describe_custom, format_value

FUNCTION = ("description", "parameters", "strict")
"""What a function has besides its name."""

NAMED = ("function", "custom")
"""Types of tools that have a name and may be in a namespace."""

NAMELESS = ("local_shell", "shell", "apply_patch", "tool_search")
"""Types of tools that are called after their type."""

HOSTED = ("web_search", "file_search", "code_interpreter", "image_generation", "mcp", "computer", "programmatic_tool_calling")
"""Beginnings of the types of tools that OpenAI runs, or whose results are pictures; `web_search_2025_08_26` is one."""

SEPARATOR = "__"
"""Between a namespace and a name in the name that the model sees."""


@frozen
class ToolForm:
    """What a function of the model is to the client."""

    kind: str
    """The type of the tool."""
    name: str
    namespace: str | None = None

    @property
    def plain_name(self) -> str:
        """The name that the model sees, if no other tool has it."""
        return self.name if self.namespace is None else f"{self.namespace}{SEPARATOR}{self.name}"


@define(eq=False)
class Toolbox:
    """The tools of one request, as functions under unique names."""

    functions: list[dict[str, Any]] = field(factory=list)
    """Those that the prompt lists, as tools of chat completions."""
    found: list[dict[str, Any]] = field(factory=list)
    """Those that the agent found in the conversation, which lists them itself."""
    forms: dict[str, ToolForm] = field(factory=dict)
    """By the name that the model sees."""
    hosted: list[str] = field(factory=list)
    """The types that were left out, each once and without its date."""
    _names: dict[ToolForm, str] = field(factory=dict, init=False)
    _known: set[str] = field(factory=set, init=False)
    """The names of `functions` and `found`."""

    def offer(self, tools: list[Any], place: str) -> None:
        """Add the tools of a list, which the prompt shows; raises ApiError (400) for one that is not valid."""
        for number, tool in enumerate(tools):
            added = self._read(tool, f"{place}[{number}]")
            self.functions += added
            self._known.update(one["function"]["name"] for one in added)

    def find(self, tools: list[Any], place: str) -> list[dict[str, Any]]:
        """Add the tools that a search found; return all of them as functions, to be shown in its result."""
        shown: list[dict[str, Any]] = []
        for number, tool in enumerate(tools):
            shown += self._read(tool, f"{place}[{number}]")
        for one in shown:
            if one["function"]["name"] not in self._known:
                self.found.append(one)
                self._known.add(one["function"]["name"])
        return [one["function"] for one in shown]

    def find_name(self, form: ToolForm) -> str:
        """Return the name that the model sees, of a tool that may not be offered any longer."""
        return self._names.get(form, form.plain_name)

    def _read(self, tool: Any, place: str) -> list[dict[str, Any]]:
        kind = tool.get("type") if isinstance(tool, dict) else None
        if kind == "namespace":
            return self._read_namespace(tool, place)
        if kind in NAMED:
            return [self._read_named(tool, place, None)]
        hosted = find_hosted(tool)
        if hosted is not None:
            if hosted not in self.hosted:
                self.hosted.append(hosted)
            return []
        if kind in NAMELESS:
            return [self._read_nameless(tool, place)]
        served = ", ".join((*NAMED, "namespace", *NAMELESS))
        raise bad_request(f"{place} is a tool of type {format_value(kind)}, which is not known; served: {served}.", place)

    def _read_namespace(self, tool: Mapping[str, Any], place: str) -> list[dict[str, Any]]:
        namespace, inner = tool.get("name"), tool.get("tools")
        if not isinstance(namespace, str) or not namespace or not isinstance(inner, list):
            raise bad_request(f"{place} must be a namespace with a name and a list of tools.", place)
        found = []
        for number, nested in enumerate(inner):
            where = f"{place}.tools[{number}]"
            if not isinstance(nested, dict) or nested.get("type") not in NAMED:
                raise bad_request(f"{where} must be a tool of type {' or '.join(NAMED)}.", where)
            found.append(self._read_named(nested, where, namespace))
        about = tool.get("description")
        if found and isinstance(about, str) and about:
            # A function has no place for it, and the model needs it once.
            first = found[0]["function"]
            text = _load_texts()["namespace"].format(prefix=f"{namespace}{SEPARATOR}", description=about)
            own = first.get("description")
            first["description"] = f"{own}\n\n{text}" if isinstance(own, str) and own else text
        return found

    def _read_named(self, tool: Mapping[str, Any], place: str, namespace: str | None) -> dict[str, Any]:
        kind, name = tool["type"], tool.get("name")
        if not isinstance(name, str) or not name:
            raise bad_request(f"{place} must be a {kind} with a name.", place)
        described = {key: tool[key] for key in FUNCTION if tool.get(key) is not None}
        if kind == "custom":
            described = describe_custom(tool, place)
        return self._add(ToolForm(kind, name, namespace), described)

    def _read_nameless(self, tool: Mapping[str, Any], place: str) -> dict[str, Any]:
        described = dict(_load_texts()[tool["type"]])
        if tool["type"] == "tool_search":
            if isinstance(tool.get("description"), str):
                described["description"] = tool["description"]
            if tool.get("parameters") is not None:
                described["parameters"] = tool["parameters"]
        return self._add(ToolForm(tool["type"], tool["type"]), described)

    def _add(self, form: ToolForm, described: Mapping[str, Any]) -> dict[str, Any]:
        name, number = self._names.get(form, form.plain_name), 1
        while self.forms.get(name, form) != form:
            number += 1
            name = f"{form.plain_name}_{number}"
        self.forms[name] = form
        self._names[form] = name
        return {"type": "function", "function": {"name": name, **described}}


def find_hosted(tool: Any) -> str | None:
    """Return the type of a tool that OpenAI's servers would run, without its date; None for any other tool."""
    kind = tool.get("type") if isinstance(tool, dict) else None
    if kind == "tool_search":
        return None if tool.get("execution") == "client" else kind
    return next((name for name in HOSTED if kind.startswith(name)), None) if isinstance(kind, str) else None


@cache
def _load_texts() -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(files(__package__).joinpath("responses_tools.json").read_text(encoding="utf-8"))
    return found
