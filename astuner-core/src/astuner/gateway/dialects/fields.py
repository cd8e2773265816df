"""Reading the fields of a JSON body: what is wrong is answered with the field's name and what it may be."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from astuner.gateway.errors import bad_request


def json_object(raw: bytes) -> dict[str, Any]:
    """Parse a body; raises ApiError (400) for anything but an object."""
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise bad_request(f"The body is not valid JSON: {error}.") from None
    if not isinstance(body, dict):
        raise bad_request("The body must be a JSON object.")
    return body


def integer(body: Mapping[str, Any], name: str, low: int | None, high: int | None) -> int | None:
    """Return an integer field within its bounds, or None when it is absent or null."""
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise bad_request(f"{name!r} must be an integer, not {value!r}.", name)
    if (low is not None and value < low) or (high is not None and value > high):
        bounds = f"at least {low}" if high is None else f"from {low} to {high}"
        raise bad_request(f"{name!r} must be {bounds}, not {value}.", name)
    return value


def number(body: Mapping[str, Any], name: str, low: float, high: float) -> float | None:
    """Return a number field within its bounds, or None when it is absent or null."""
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
        raise bad_request(f"{name!r} must be a number from {low:g} to {high:g}, not {value!r}.", name)
    return float(value)


def strings(body: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Return a field that is a string or a list of strings, none of them empty; nothing when it is absent or null."""
    value = body.get(name)
    found = [value] if isinstance(value, str) else value or []
    if not isinstance(found, list) or not all(isinstance(text, str) and text for text in found):
        raise bad_request(f"{name!r} must be a string or a list of strings, none of them empty.", name)
    return tuple(found)
