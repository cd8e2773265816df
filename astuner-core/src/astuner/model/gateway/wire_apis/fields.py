"""Reading the fields of a JSON body: errors name the field and its valid values."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NoReturn, cast

from astuner.model.http_server import load_json
from astuner.model.rendering.errors import bad_request

DEEPEST = 100
"""Levels of lists and objects in a body. Deeper bodies would overflow the stack of templates, engines and encoders."""

LARGEST = 2**31 - 1
"""Largest count or size: engines keep them in 32 bits."""
INVALID_JSON = "INVALID_JSON"
"""The only key of an object that wraps arguments other than a JSON object."""


def parse_body(raw: bytes | bytearray) -> dict[str, Any]:
    """Parse a body; raises ApiError (400) for anything but an object of finite numbers, at most `DEEPEST` levels deep."""
    try:
        body = load_json(raw, parse_constant=_refuse_constant, parse_float=_parse_finite)
    except (ValueError, RecursionError) as error:
        raise bad_request(f"The body is not valid JSON: {error}.") from None
    if not isinstance(body, dict):
        raise bad_request("The body must be a JSON object.")
    # Most bodies have too few brackets to be deep, which is cheap to check.
    if raw.count(b"{") + raw.count(b"[") > DEEPEST and _is_deep(body):
        raise bad_request(f"The body is nested more than {DEEPEST} levels deep.")
    return body


def read_text(body: Mapping[str, Any], name: str) -> str | None:
    """Return a string field, or None when it is absent or null."""
    return cast("str | None", _read(body, name, str, "a string"))


def read_flag(body: Mapping[str, Any], name: str, default: bool) -> bool:
    """Return a field that is true or false; `default` when it is absent or null."""
    value = _read(body, name, bool, "true or false")
    return default if value is None else bool(value)


def read_object(body: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a field that is an object; an empty one when it is absent or null."""
    return _read(body, name, dict, "an object") or {}


def read_list(body: Mapping[str, Any], name: str) -> list[Any]:
    """Return a field that is a list; an empty one when it is absent or null."""
    return _read(body, name, list, "a list") or []


def read_integer(body: Mapping[str, Any], name: str, low: int | None, high: int | None) -> int | None:
    """Return an integer field within its bounds, or None when it is absent or null."""
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise bad_request(f"{name!r} must be an integer, not {format_value(value)}.", name)
    if (low is not None and value < low) or (high is not None and value > high):
        bounds = f"at least {low}" if high is None else f"from {low} to {high}"
        raise bad_request(f"{name!r} must be {bounds}, not {format_value(value)}.", name)
    return value


def read_number(body: Mapping[str, Any], name: str, low: float, high: float) -> float | None:
    """Return a number field within its bounds, or None when it is absent or null."""
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
        raise bad_request(f"{name!r} must be a number from {low:g} to {high:g}, not {format_value(value)}.", name)
    return float(value)


def read_string_in(item: Mapping[str, Any], name: str, place: str) -> str:
    """Return a string that an item of a list must have; `place` is the item's."""
    value = item.get(name)
    if not isinstance(value, str):
        raise bad_request(f"{place}.{name} must be a string, not {format_value(value)}.", f"{place}.{name}")
    return value


def read_strings(body: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Return a field that is a string or a list of strings, none of them empty; nothing when it is absent or null."""
    value = body.get(name)
    found = [value] if isinstance(value, str) else value or []
    if not isinstance(found, list) or not all(isinstance(text, str) and text for text in found):
        raise bad_request(f"{name!r} must be a string or a list of strings, none of them empty.", name)
    return tuple(found)


def format_value(value: Any) -> str:
    """Return a value as an error shows it."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


_SHOWN = 80


def _read(body: Mapping[str, Any], name: str, kind: type, expected: str) -> Any:
    value = body.get(name)
    if value is not None and not isinstance(value, kind):
        raise bad_request(f"{name!r} must be {expected}, not {format_value(value)}.", name)
    return value


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON number")


def _parse_finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise ValueError(f"{digits[:_SHOWN]} is too large for a number")
    return value


def _is_deep(body: Any) -> bool:
    level = [body]
    for _ in range(DEEPEST):
        # Parsed JSON has exactly these types, and checking for them is fastest.
        below = [
            child
            for parent in level
            for child in (parent.values() if type(parent) is dict else parent)
            if type(child) is dict or type(child) is list
        ]
        if not below:
            return False
        level = below
    return True


def wrap_arguments(arguments: str) -> Mapping[str, Any]:
    """Return the arguments of a tool call as an object that every client can parse."""
    try:
        found = json.loads(arguments)
        # Python parses numbers that JSON does not have: NaN, Infinity, 1e999.
        json.dumps(found, allow_nan=False)
    except (ValueError, RecursionError):
        found = arguments
    return found if isinstance(found, dict) else {INVALID_JSON: arguments}


def unwrap_arguments(given: Mapping[str, Any]) -> str:
    """Return the arguments that an object stands for, as text."""
    raw = given.get(INVALID_JSON) if len(given) == 1 else None
    return raw if isinstance(raw, str) else json.dumps(given, ensure_ascii=False)
