"""Arguments that a format carries as plain text, to JSON by the schema of the tool."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_KINDS: Mapping[str, type | tuple[type, ...]] = {
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "object": dict,
    "array": list,
}


def encode_arguments(name: str, values: Iterable[tuple[str, str]], tools: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the arguments of a call as a JSON object, each value of the type that the schema of its tool declares.

    A value that is not of its declared type stays a string, for the tool to refuse. Without a declared type, JSON is
    taken as it is and everything else as a string. None if an argument is given twice.
    """
    properties = _find_properties(name, tools)
    written: dict[str, str] = {}
    for key, text in values:
        if key in written:
            return None
        written[key] = _encode_value(text, _collect_types(properties.get(key)))
    return "{" + ", ".join(f"{json.dumps(key, ensure_ascii=False)}: {text}" for key, text in written.items()) + "}"


def _find_properties(name: str, tools: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    for tool in tools:
        function = tool.get("function")
        if isinstance(function, Mapping) and function.get("name") == name:
            parameters = function.get("parameters")
            properties = parameters.get("properties") if isinstance(parameters, Mapping) else None
            return properties if isinstance(properties, Mapping) else {}
    return {}


def _collect_types(schema: Any) -> set[str]:
    if not isinstance(schema, Mapping):
        return set()
    declared = schema.get("type")
    types = {declared} if isinstance(declared, str) else {one for one in declared or () if isinstance(one, str)}
    for key in ("anyOf", "oneOf"):
        for choice in schema.get(key) or ():
            types |= _collect_types(choice)
    if not types and isinstance(schema.get("enum"), list) and all(isinstance(one, str) for one in schema["enum"]):
        types.add("string")
    return types


def _encode_value(text: str, types: set[str]) -> str:
    bare = text.strip()
    if "null" in types and bare in ("null", "None"):
        return "null"
    if "boolean" in types and bare in ("True", "False"):
        return bare.lower()
    value = _parse_strict(bare)
    others = types - {"string", "null"}
    if not types:
        fits = value is not None or bare == "null"
    else:
        fits = any(isinstance(value, _KINDS.get(kind, ())) for kind in others)
        # JSON's true is not a number, though Python's is.
        fits = fits and not (isinstance(value, bool) and "boolean" not in others)
    return bare if fits else json.dumps(text, ensure_ascii=False)


def _parse_strict(text: str) -> Any:
    """Return the value of a JSON text; None if it is not valid JSON, like NaN, which Python accepts."""

    def refuse(_: str) -> Any:
        raise ValueError

    try:
        return json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError):
        return None
