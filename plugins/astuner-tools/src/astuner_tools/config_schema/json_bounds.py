"""The bounds that attrs' own validators set, as keywords of JSON Schema."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

_COMPARED: Mapping[str, str] = {">=": "minimum", ">": "exclusiveMinimum", "<=": "maximum", "<": "exclusiveMaximum"}

Bounds = dict[str, Any]
"""Keywords by the JSON type that they belong to: `number`, `string`, `array`. `items` holds the bounds of a list's items,
`choice` the allowed values."""


def read_bounds(validator: Any) -> Bounds:
    """Return the bounds of a validator as JSON Schema; empty for one that is not attrs' own.

    attrs offers no way to ask its validators, so they are recognised by the names of their classes and fields; a test checks
    every one of them against the installed attrs.
    """
    match type(validator).__name__:
        case "_NumberValidator":
            number = type(validator.bound) in (int, float)
            return {"number": {_COMPARED[validator.compare_op]: validator.bound}} if number else {}
        case "_AndValidator":
            return _merge_bounds(read_bounds(part) for part in validator._validators)
        case "_OptionalValidator":
            return read_bounds(validator.validator)
        case "_MinLengthValidator":
            return {"string": {"minLength": validator.min_length}, "array": {"minItems": validator.min_length}}
        case "_MaxLengthValidator":
            return {"string": {"maxLength": validator.max_length}, "array": {"maxItems": validator.max_length}}
        case "_MatchesReValidator":
            return _read_pattern(validator)
        case "_DeepIterable":
            own = [read_bounds(validator.iterable_validator)] if validator.iterable_validator is not None else []
            return _merge_bounds([*own, {"items": read_bounds(validator.member_validator)}])
        case "_InValidator":
            return _read_choice(validator.options)
        case _:
            return {}


def _read_pattern(validator: Any) -> Bounds:
    # Only patterns that every dialect of regular expressions reads alike, and only attrs' default way of matching.
    if validator.match_func.__name__ != "fullmatch" or re.search(r"\(\?[^:=!]|\\[AZz]", validator.pattern.pattern):
        return {}
    return {"string": {"pattern": f"^(?:{validator.pattern.pattern})$"}}


def _read_choice(options: Any) -> Bounds:
    # `in_("abc")` accepts any substring.
    values = list(options) if isinstance(options, Iterable) and not isinstance(options, str) else []
    if not values or not all(type(value) in (str, int, float, bool) for value in values):
        return {}
    return {"choice": {"enum": values}}


def _merge_bounds(parts: Iterable[Bounds]) -> Bounds:
    merged: Bounds = {}
    for part in parts:
        for kind, keywords in part.items():
            merged[kind] = {**merged.get(kind, {}), **keywords}
    return merged
