"""Arguments that a format carries as plain text, to JSON by the schema of the tool."""

from __future__ import annotations

import ast
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

NAMES: Mapping[str, Any] = {"true": True, "false": False, "null": None}
"""JSON's names of values."""

_PYTHON: Mapping[str, str] = {
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "str": "string",
    "dict": "object",
    "list": "array",
    "tuple": "array",
}
"""Names of types that schemas have from Python, as in BFCL's tools."""

_KINDS: Mapping[str, type | tuple[type, ...]] = {
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "object": dict,
    "array": list,
}


def encode_arguments(
    name: str, values: Iterable[tuple[str, str]], tools: Sequence[Mapping[str, Any]], texts: Collection[str] = ()
) -> str | None:
    """Return the arguments of a call as a JSON object, each value of the type that the schema of its tool declares.

    A value that is not of its declared type stays a string, for the tool to refuse. Without a declared type, JSON is
    taken as it is and everything else as a string. `texts` are strings, whatever the schema says. None if an argument is
    given twice.
    """
    properties = find_properties(name, tools)
    written: dict[str, str] = {}
    for key, text in values:
        if key in written:
            return None
        written[key] = encode_value(text, {"type": "string"} if key in texts else properties.get(key))
    return "{" + ", ".join(f"{json.dumps(key, ensure_ascii=False)}: {text}" for key, text in written.items()) + "}"


def encode_values(name: str, values: Mapping[str, Any], tools: Sequence[Mapping[str, Any]]) -> str:
    """Return the arguments of a call as a JSON object. A text that its schema declares to be something else becomes that.

    Raises ValueError or TypeError for values that JSON does not have.
    """
    properties = find_properties(name, tools)
    written = (
        f"{json.dumps(key, ensure_ascii=False)}: "
        + (
            encode_value(value, properties[key])
            if isinstance(value, str) and key in properties
            else json.dumps(value, ensure_ascii=False, allow_nan=False)
        )
        for key, value in values.items()
    )
    return "{" + ", ".join(written) + "}"


def find_properties(name: str, tools: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the schemas of the arguments of a tool."""
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
    named = {declared} if isinstance(declared, str) else {one for one in declared or () if isinstance(one, str)}
    types = {_PYTHON.get(name, name) for name in named}
    for key in ("anyOf", "oneOf"):
        for choice in schema.get(key) or ():
            types |= _collect_types(choice)
    if not types and isinstance(schema.get("enum"), list) and all(isinstance(one, str) for one in schema["enum"]):
        types.add("string")
    return types


def encode_value(text: str, schema: Any) -> str:
    """Return a plain text as JSON of the type that a schema declares."""
    types = _collect_types(schema)
    bare = text.strip()
    if "null" in types and bare in ("null", "None"):
        return "null"
    if "boolean" in types and bare in ("True", "False"):
        return bare.lower()
    value = _parse_strict(bare)
    others = types - {"string", "null"}
    if value is None and others & {"array", "object"}:
        # Some templates write lists and mappings as Python does.
        value = read_literal(bare)
        bare = bare if value is None else json.dumps(value, ensure_ascii=False)
    if not types:
        fits = value is not None or bare == "null"
    else:
        fits = any(isinstance(value, _KINDS.get(kind, ())) for kind in others)
        # JSON's true is not a number, though Python's is.
        fits = fits and not (isinstance(value, bool) and "boolean" not in others)
    return bare if fits else json.dumps(text, ensure_ascii=False)


def read_literal(text: str) -> Any:
    """Return the value of a Python literal, in which JSON's names are allowed too; None if it is not one, or not JSON's kind."""
    try:
        value = evaluate(ast.parse(text.strip(), mode="eval").body)
        json.dumps(value, allow_nan=False)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None
    return value


def evaluate(node: ast.expr) -> Any:
    """Return the value of a literal; raises ValueError for anything else."""
    return ast.literal_eval(_JsonNames().visit(node))


class _JsonNames(ast.NodeTransformer):
    """Gives JSON's names their values, and makes sets lists."""

    def visit_Set(self, node: ast.Set) -> ast.expr:
        return self.visit(ast.List(node.elts, ast.Load()))  # type: ignore[no-any-return] # a transformer's visit

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(NAMES[node.id]) if node.id in NAMES else node


def _parse_strict(text: str) -> Any:
    """Return the value of a JSON text; None if it is not valid JSON, like NaN, which Python accepts."""

    def refuse(_: str) -> Any:
        raise ValueError

    try:
        return json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError):
        return None
