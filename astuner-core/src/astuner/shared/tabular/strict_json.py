"""Strict JSON: no NaN, no infinity, and no duplicate keys in objects."""

from __future__ import annotations

import json
from collections.abc import Callable
from json.encoder import c_encode_basestring, c_encode_basestring_ascii, c_make_encoder  # type: ignore[attr-defined] # no stubs
from typing import Any


class StrictJsonError(ValueError):
    """Input that Python's parser accepts but that is not valid JSON, or that is too large."""


def _refuse(constant: str) -> Any:
    raise StrictJsonError(f"{constant} is not a JSON value; write null instead")


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    names = [name for name, _ in pairs]
    twice = next(name for number, name in enumerate(names) if name in names[:number])
    raise StrictJsonError(f"an object has two keys '{twice}'; rename or remove one of them")


def make_encoder(*, compact: bool = False, default: Callable[[Any], Any] | None = None) -> Callable[[Any], str]:
    """Return what writes a list or an object as `json.dumps` does, which builds an encoder in each call: half of its time.

    `compact` sorts keys, leaves out spaces, and is not ASCII. `ValueError`: a number is not finite, and it is not `compact`.
    """
    encode, colon, comma = (c_encode_basestring, ":", ",") if compact else (c_encode_basestring_ascii, ": ", ", ")
    write = c_make_encoder(None, default or json.JSONEncoder().default, encode, None, colon, comma, compact, False, compact)
    return lambda value: "".join(write(value, 0))


DECODER = json.JSONDecoder(parse_constant=_refuse, object_pairs_hook=_make_object)


def parse_json(text: str) -> Any:
    """Return the value of a text. Raises `json.JSONDecodeError`, or `StrictJsonError` for what that does not cover."""
    try:
        return DECODER.decode(text)
    except (json.JSONDecodeError, StrictJsonError):
        raise
    except (ValueError, RecursionError) as error:
        # An integer of thousands of digits, or very deep nesting.
        raise StrictJsonError(str(error)) from error
