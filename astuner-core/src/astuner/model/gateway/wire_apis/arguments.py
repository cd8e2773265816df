"""Arguments of tool calls as JSON objects, for APIs that have no other form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

INVALID_JSON = "INVALID_JSON"
"""The only key of an object that wraps arguments other than a JSON object."""


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
