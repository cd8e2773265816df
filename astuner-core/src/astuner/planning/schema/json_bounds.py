"""The bounds that attrs' own validators set, as keywords of JSON Schema."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

_COMPARED: Mapping[str, str] = {">=": "minimum", ">": "exclusiveMinimum", "<=": "maximum", "<": "exclusiveMaximum"}

Bounds = dict[str, Any]
"""Keywords by the JSON type that they belong to: `number`, `string`, `array`. `items` holds the bounds of a list's items,
`choice` the values that there are."""


def bounds_of(validator: Any) -> Bounds:
    """Return what a validator says in terms of JSON Schema; one that is not attrs' own says nothing.

    attrs offers no way to ask its validators, so they are known by the names of their classes and fields; a test holds every
    one of them against the attrs that is installed.
    """
    match type(validator).__name__:
        case "_NumberValidator":
            number = type(validator.bound) in (int, float)
            return {"number": {_COMPARED[validator.compare_op]: validator.bound}} if number else {}
        case "_AndValidator":
            return _together(bounds_of(part) for part in validator._validators)
        case "_OptionalValidator":
            return bounds_of(validator.validator)
        case "_MinLengthValidator":
            return {"string": {"minLength": validator.min_length}, "array": {"minItems": validator.min_length}}
        case "_MaxLengthValidator":
            return {"string": {"maxLength": validator.max_length}, "array": {"maxItems": validator.max_length}}
        case "_MatchesReValidator":
            return _matching(validator)
        case "_DeepIterable":
            own = [bounds_of(validator.iterable_validator)] if validator.iterable_validator is not None else []
            return _together([*own, {"items": bounds_of(validator.member_validator)}])
        case "_InValidator":
            return _choice(validator.options)
        case _:
            return {}


def _matching(validator: Any) -> Bounds:
    # Only what every dialect of regular expressions reads alike, and only the way of matching that attrs has by default.
    if validator.match_func.__name__ != "fullmatch" or re.search(r"\(\?[^:=!]|\\[AZz]", validator.pattern.pattern):
        return {}
    return {"string": {"pattern": f"^(?:{validator.pattern.pattern})$"}}


def _choice(options: Any) -> Bounds:
    # `in_("abc")` means any part of the text.
    values = list(options) if isinstance(options, Iterable) and not isinstance(options, str) else []
    if not values or not all(type(value) in (str, int, float, bool) for value in values):
        return {}
    return {"choice": {"enum": values}}


def _together(parts: Iterable[Bounds]) -> Bounds:
    merged: Bounds = {}
    for part in parts:
        for kind, keywords in part.items():
            merged[kind] = {**merged.get(kind, {}), **keywords}
    return merged
