"""The JSON Schema (draft-07) of a typed class: what `structuring` accepts, for editors.

Where possible, schemas are written flat (`type: [integer, string]` with the bounds of the one and the pattern of the other), not
as alternatives: an editor then completes, explains and reports one thing. `errorMessage` and
`patternErrorMessage` replace the messages of language servers; validators ignore them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_origin

import attrs

from astuner.settings.config.components import ONE_OR_MANY, OPEN
from astuner.settings.config.redaction import is_secret
from astuner.settings.config.structure_errors import is_list, is_literal, is_union
from astuner.settings.config.structuring import make_converter
from astuner.settings.config.trainer import LoggerChoice
from astuner_tools.config_schema.json_bounds import Bounds, read_bounds
from astuner_tools.option_docs import read_field_docs

Schema = dict[str, Any]

INTERPOLATION = r"^\$\{[\s\S]*\}$"
"""An interpolation is allowed in place of any value."""

_PLAIN: Mapping[Any, str] = {bool: "boolean", int: "integer", float: "number", str: "string", Path: "string"}


_MESSAGES = ("errorMessage", "patternErrorMessage")


def build_class_schema(cls: type[Any], above: tuple[type[Any], ...] = ()) -> Schema:
    """Return the schema of a section that is structured into an attrs class."""
    cls = get_origin(cls) or cls
    if cls in above:
        # A class that contains itself is described to the first level.
        return build_free_section()
    docs = read_field_docs(cls)
    fields = [item for item in attrs.fields(attrs.resolve_types(cls)) if item.init]
    named = [item for item in fields if not item.metadata.get(OPEN)]
    required = [_get_name(item) for item in named if item.default is attrs.NOTHING]
    other = {**build_free_section(), "errorMessage": "there is no such key; a section may have the name of a component"}
    schema: Schema = {
        # An empty section is one without keys.
        "type": ["object", "string"] if required else ["object", "null", "string"],
        "pattern": INTERPOLATION,
        "patternErrorMessage": "expected a section, or an interpolation ${…}",
        "properties": {_get_name(item): _build_field_schema(item, docs.get(item.name, ""), (*above, cls)) for item in named},
        "additionalProperties": other if len(named) < len(fields) else False,
    }
    if required:
        schema["required"] = required
    return schema


def build_type_schema(kind: Any, above: tuple[type[Any], ...] = (), bounds: Bounds | None = None) -> Schema:
    """Return the schema of a type; `bounds` are keywords by the JSON type that they belong to. Unknown types accept anything."""
    bounds = bounds or {}
    if kind in _PLAIN:
        return _build_plain_schema(_PLAIN[kind], bounds)
    if kind is LoggerChoice:
        return _build_logger_schema()
    if kind is type(None):
        return {"type": ["null"]}
    if is_union(kind):
        return _build_union_schema([build_type_schema(member, above, bounds) for member in get_args(kind)])
    if is_literal(kind):
        return build_choice(get_args(kind))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return build_choice([member.value for member in kind])
    if attrs.has(get_origin(kind) or kind):
        return build_class_schema(kind, above)
    if is_list(kind):
        return _build_list_schema(kind, above, bounds)
    origin = get_origin(kind) or kind
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _build_mapping_schema(kind, above)
    return {}


def build_free_section() -> Schema:
    """Return the schema of a section that may hold anything."""
    return {
        "type": ["object", "null", "string"],
        "pattern": INTERPOLATION,
        "patternErrorMessage": "expected a section, or an interpolation ${…}",
    }


def suggest_names(schema: Schema, names: Sequence[str]) -> Schema:
    """Offer names for a text, without forbidding others."""
    about = {key: value for key, value in schema.items() if key in ("description", "default")}
    rest = {key: value for key, value in schema.items() if key not in about}
    return {**about, "anyOf": [{"enum": list(names)}, rest]} if names else schema


def build_choice(values: Sequence[Any]) -> Schema:
    """Return the schema of a choice of values."""
    return {"anyOf": [{"enum": list(values)}, {"type": "string", "pattern": INTERPOLATION}]}


def _get_name(item: attrs.Attribute[Any]) -> str:
    return item.alias or item.name


def _build_field_schema(item: attrs.Attribute[Any], doc: str, above: tuple[type[Any], ...]) -> Schema:
    kind = item.type if item.type is not None else Any
    # A validator sees the converted value, so it says nothing about the written one.
    bounds = read_bounds(item.validator) if item.converter is None else {}
    schema = build_type_schema(kind, above, bounds)
    if item.metadata.get(ONE_OR_MANY):
        schema = {"anyOf": [schema["items"], schema]}
    if item.default == "":
        # Null is an empty text.
        schema = _build_union_schema([schema, build_type_schema(type(None))])
    if attrs.has(get_origin(kind) or kind):
        doc = doc or " ".join((kind.__doc__ or "").partition("\n\n")[0].split())
    about: Schema = {"description": doc} if doc else {}
    return {**about, **_read_default(item), **schema}


def _read_default(item: attrs.Attribute[Any]) -> Schema:
    default: Any = item.default
    if isinstance(default, attrs.Factory):  # type: ignore[arg-type]  # attrs types the class as a function
        if default.takes_self:
            return {}
        default = default.factory()
    # The defaults of a section are those of its keys; one of a secret may come from the environment.
    if default is attrs.NOTHING or attrs.has(type(default)) or is_secret(item.name):
        return {}
    value = make_converter().unstructure(default)
    return {"default": value} if _is_plain(value) else {}


def _is_plain(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_plain(item) for key, item in value.items())
    return all(map(_is_plain, value)) if isinstance(value, list) else value is None or type(value) in (bool, int, float, str)


def _build_plain_schema(kind: str, bounds: Bounds) -> Schema:
    if "choice" in bounds:
        return build_choice(bounds["choice"]["enum"])
    if kind == "string":
        text = bounds.get("string")
        # An interpolation may also be a part of the text.
        return (
            {"anyOf": [{"type": ["string"], **text}, {"type": ["string"], "pattern": r"\$\{"}]} if text else {"type": ["string"]}
        )
    words = {"boolean": "true or false", "integer": "a whole number", "number": "a number"}
    own = bounds.get("number", {}) if kind != "boolean" else {}
    return {
        "type": [kind, "string"],
        **own,
        "pattern": INTERPOLATION,
        "errorMessage": f"expected {words[kind]}, or an interpolation ${{…}}",
    }


def _build_list_schema(kind: Any, above: tuple[type[Any], ...], bounds: Bounds) -> Schema:
    kinds = get_args(kind)
    fixed = (get_origin(kind) or kind) is tuple and kinds and kinds[-1] is not Ellipsis
    items: list[Schema] = [build_type_schema(item, above, bounds.get("items")) for item in kinds if item is not Ellipsis]
    schema: Schema = {"type": ["array", "string"], "items": items[0] if items else {}}
    if fixed:
        schema |= {"items": items, "minItems": len(items), "maxItems": len(items)}
        if all(item == items[0] for item in items):
            schema["items"] = items[0]
    message = "expected a list, or an interpolation ${…}"
    return {**schema, **bounds.get("array", {}), "pattern": INTERPOLATION, "errorMessage": message}


def _build_mapping_schema(kind: Any, above: tuple[type[Any], ...]) -> Schema:
    keys, values = get_args(kind) or (Any, Any)
    schema = {**build_free_section(), "additionalProperties": build_type_schema(values, above)}
    if is_literal(keys):
        schema["propertyNames"] = {"enum": list(get_args(keys))}
    return schema


def _build_union_schema(members: Sequence[Schema]) -> Schema:
    """Write members flat if each describes different JSON types."""
    if any("type" not in member for member in members):
        if any(not member for member in members):
            return {}
        return {"anyOf": [part for member in members for part in member.get("anyOf", [member])]}
    # A member that accepts any text removes the patterns of the others.
    any_text = any("string" in member["type"] and "pattern" not in member for member in members)
    flat: Schema = {"type": list(dict.fromkeys(kind for member in members for kind in member["type"]))}
    for member in members:
        for key, value in member.items():
            if key == "type" or (any_text and key in ("pattern", *_MESSAGES)):
                continue
            if flat.setdefault(key, value) != value and key not in _MESSAGES:
                return {"anyOf": list(members)}
    return flat


def _build_logger_schema() -> Schema:
    options = {"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": build_free_section()}
    return {"anyOf": [{"type": "string", "minLength": 1}, options]}
