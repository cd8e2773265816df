"""JSON as it is defined: no NaN, no infinity, and no object in which one key stands twice."""

from __future__ import annotations

import json
from typing import Any


class StrictJsonError(ValueError):
    """Something that Python's parser takes, and that is no JSON, or too large to be taken."""


def _refuse(constant: str) -> Any:
    raise StrictJsonError(f"{constant} is no JSON value; write null in its place")


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    names = [name for name, _ in pairs]
    twice = next(name for number, name in enumerate(names) if name in names[:number])
    raise StrictJsonError(f"an object has two keys '{twice}'; rename or remove one of them")


DECODER = json.JSONDecoder(parse_constant=_refuse, object_pairs_hook=_make_object)


def parse_json(text: str) -> Any:
    """Return the value of a text. Raises `json.JSONDecodeError`, and `StrictJsonError` for what that error does not stand for."""
    try:
        return DECODER.decode(text)
    except (json.JSONDecodeError, StrictJsonError):
        raise
    except (ValueError, RecursionError) as error:
        # A whole number of thousands of digits, or nesting without end.
        raise StrictJsonError(str(error)) from error
