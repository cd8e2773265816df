"""Calls of tools in `/v1/responses`: the model calls a function, the client gets an item of the tool's own type.

Every item reads back as the call that was sampled, so that the next request continues it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from astuner.model.gateway.wire_apis import bad_request, encode_meaning, format_value, parse_arguments, read_string_in
from astuner_wire_apis.responses_tools import NAMED, Toolbox, ToolForm

AS_SAMPLED = "_raw"
"""Ends the id of a call whose arguments do not fit its tool: its item has the name and the arguments that were sampled."""

Test = Callable[[Any], bool]


@frozen(kw_only=True)
class CallKind:
    """How the calls of one type of tool are sent and read."""

    item: str
    """The type of the item."""
    prefix: str
    """Of the item's id."""
    write: Callable[[Mapping[str, Any]], Mapping[str, Any] | None]
    """Returns the item's own fields for the arguments of a call; None if the item cannot hold them."""
    read: Callable[[Mapping[str, Any], str], Mapping[str, Any]]
    """Returns the arguments of an item at a place of the input; raises ApiError."""


def write_call(form: ToolForm | None, call: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call of a chat completion as an item, without its id and status.

    `form` is that of the called tool; None if there is no such tool. A call whose arguments do not fit the tool's item is a
    `function_call`, which the agent refuses; that of a custom tool has them as its input, since Codex ends at anything else.
    """
    call_id, name, text = call["id"], call["function"]["name"], call["function"]["arguments"]
    plain = {"type": "function_call", "call_id": call_id, "name": name, "arguments": text}
    if form is None:
        return plain
    named = {"name": form.name} | ({} if form.namespace is None else {"namespace": form.namespace})
    if form.kind == "function":
        return {**plain, **named}
    kind = KINDS[form.kind]
    arguments = parse_arguments(text)
    fields = kind.write(arguments) if isinstance(arguments, dict) else None
    if fields is not None and _means_the_same(text, kind.read(fields, "")):
        return {"type": kind.item, "call_id": call_id, **fields, **(named if form.kind == "custom" else {})}
    if form.kind == "custom":
        return {"type": kind.item, "call_id": f"{call_id}{AS_SAMPLED}", "input": text, **named}
    return {**plain, "call_id": f"{call_id}{AS_SAMPLED}"}


def read_call(item: Mapping[str, Any], place: str, tools: Toolbox) -> dict[str, Any]:
    """Return the item of a call as the message of a chat completion; raises ApiError (400)."""
    call_id, as_sampled = read_call_id(item, place), str(item.get("call_id")).endswith(AS_SAMPLED)
    tool, kind = next(((name, kind) for name, kind in KINDS.items() if kind.item == item["type"]), ("function", None))
    form = _read_form(item, tool, place) if tool in NAMED else ToolForm(tool, tool)
    name = tools.find_name(form)
    if kind is None:
        text = read_string_in(item, "arguments", place)
        name = form.name if as_sampled else name
    elif tool == "custom" and as_sampled:
        text = read_string_in(item, "input", place)
    else:
        text = json.dumps(kind.read(item, place), ensure_ascii=False)
    function = {"name": name, "arguments": text}
    return {"role": "assistant", "tool_calls": [{"id": call_id, "type": "function", "function": function}]}


def _read_form(item: Mapping[str, Any], kind: str, place: str) -> ToolForm:
    namespace = item.get("namespace")
    if not isinstance(namespace, str | None):
        raise bad_request(f"{place}.namespace must be a string, not {format_value(namespace)}.", f"{place}.namespace")
    return ToolForm(kind, read_string_in(item, "name", place), namespace or None)


def read_call_id(item: Mapping[str, Any], place: str) -> str:
    """Return the id of the call that an item is, or answers; raises ApiError (400)."""
    # The outputs of local shells have no other id.
    key = "id" if item["type"] == "local_shell_call_output" and item.get("call_id") is None else "call_id"
    return read_string_in(item, key, place).removesuffix(AS_SAMPLED)


def _means_the_same(sampled: str, arguments: Mapping[str, Any]) -> bool:
    def encode(text: str) -> bytes:
        return encode_meaning({"role": "assistant", "tool_calls": [{"function": {"name": "", "arguments": text}}]})

    return encode(sampled) == encode(json.dumps(arguments, ensure_ascii=False))


def _fits(arguments: Mapping[str, Any], needed: Mapping[str, Test], optional: Mapping[str, Test] | None = None) -> bool:
    known = {**needed, **(optional or {})}
    return needed.keys() <= arguments.keys() and all(key in known and known[key](value) for key, value in arguments.items())


def _read_object(item: Mapping[str, Any], name: str, place: str) -> Mapping[str, Any]:
    value = item.get(name)
    if not isinstance(value, dict):
        raise bad_request(f"{place}.{name} must be an object, not {format_value(value)}.", f"{place}.{name}")
    return value


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(text, str) for text in value)


def _is_environment(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())


def _write_custom(arguments: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return dict(arguments) if _fits(arguments, {"input": _is_text}) else None


def _read_custom(item: Mapping[str, Any], place: str) -> Mapping[str, Any]:
    return {"input": read_string_in(item, "input", place)}


def _write_local_shell(arguments: Mapping[str, Any]) -> Mapping[str, Any] | None:
    optional = {"working_directory": _is_text, "timeout_ms": _is_count, "env": _is_environment, "user": _is_text}
    if not _fits(arguments, {"command": _is_texts}, optional):
        return None
    return {"action": {"working_directory": None, "timeout_ms": None, "env": {}, "user": None, **arguments, "type": "exec"}}


def _read_local_shell(item: Mapping[str, Any], place: str) -> Mapping[str, Any]:
    action = _read_object(item, "action", place)
    return {key: value for key, value in action.items() if key != "type" and value not in (None, {})}


def _write_shell(arguments: Mapping[str, Any]) -> Mapping[str, Any] | None:
    if not _fits(arguments, {"commands": _is_texts}, {"timeout_ms": _is_count, "max_output_length": _is_count}):
        return None
    return {"action": {"timeout_ms": None, "max_output_length": None, **arguments}}


def _read_shell(item: Mapping[str, Any], place: str) -> Mapping[str, Any]:
    return {key: value for key, value in _read_object(item, "action", place).items() if value is not None}


def _write_patch(arguments: Mapping[str, Any]) -> Mapping[str, Any] | None:
    place = {"type": _is_text, "path": _is_text}
    needed = place if arguments.get("type") == "delete_file" else {**place, "diff": _is_text}
    known = arguments.get("type") in ("create_file", "update_file", "delete_file")
    return {"operation": dict(arguments)} if known and _fits(arguments, needed) else None


def _read_patch(item: Mapping[str, Any], place: str) -> Mapping[str, Any]:
    return {key: value for key, value in _read_object(item, "operation", place).items() if value is not None}


def _write_search(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"execution": "client", "arguments": arguments}


def _read_search(item: Mapping[str, Any], place: str) -> Mapping[str, Any]:
    return _read_object(item, "arguments", place)


KINDS: Mapping[str, CallKind] = {
    "custom": CallKind(item="custom_tool_call", prefix="ctc", write=_write_custom, read=_read_custom),
    "local_shell": CallKind(item="local_shell_call", prefix="lsc", write=_write_local_shell, read=_read_local_shell),
    "shell": CallKind(item="shell_call", prefix="sh", write=_write_shell, read=_read_shell),
    "apply_patch": CallKind(item="apply_patch_call", prefix="apc", write=_write_patch, read=_read_patch),
    "tool_search": CallKind(item="tool_search_call", prefix="tsc", write=_write_search, read=_read_search),
}
"""By the type of the tool; calls of functions are sent as they are."""
