"""JSON from sampled text, each value as the model wrote it, and the arguments of tool calls as values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from astuner.contract.plain_values import mend_text, mend_texts

_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()

LONGEST_REMEMBERED = 2048
"""Characters of arguments that are remembered."""


def read_call(block: str, keys: tuple[str, ...] = ("arguments",)) -> tuple[str, str] | None:
    """Return the name and the arguments of `{"name": …, "arguments": …}`; None if they cannot be read.

    The arguments are the model's own text, under one of `keys`.
    """
    try:
        text = block.strip()
        members = dict(_split_members(text))
        name = json.loads(members["name"])
        written = next(members[key] for key in keys if key in members)
        arguments = json.loads(written)
    except (ValueError, KeyError, IndexError, StopIteration, RecursionError):
        return None
    if not isinstance(name, str) or not name:
        return None
    name = mend_text(name)
    if isinstance(arguments, dict):
        return name, written
    # Some models write the arguments as a string that holds JSON.
    return (name, mend_text(arguments) or "{}") if isinstance(arguments, str) else None


def parse_arguments(text: str) -> Any:
    """Return the parsed arguments of a tool call, or the text itself if it is not a JSON object. Do not modify it."""
    return _parse_remembered(text) if len(text) <= LONGEST_REMEMBERED else _parse(text)


def read_object(text: str) -> str | None:
    """Return the text of a JSON object without surrounding white space; None for anything else."""
    text = text.strip()
    return text if isinstance(_parse(text), dict) else None


def find_value_end(text: str, place: int) -> int | None:
    """Return the end of the JSON value that begins at a place; None if it is cut off or invalid."""
    try:
        return _DECODER.raw_decode(text, place)[1]
    except (ValueError, IndexError, RecursionError):
        return None


def split_elements(text: str, place: int) -> list[str] | None:
    """Return the elements of the JSON array that begins at a place, each as written; None if they cannot be read."""
    found: list[str] = []
    try:
        place = _expect(text, place, "[")
        while text[place] != "]":
            _, end = _DECODER.raw_decode(text, place)
            found.append(text[place:end])
            place = _SPACE.match(text, end).end()  # type: ignore[union-attr] # it always matches
            if text[place] != "]":
                place = _expect(text, place, ",")
    except (ValueError, IndexError, RecursionError):
        return None
    return found


def _split_members(text: str) -> Iterator[tuple[str, str]]:
    """Yield the members of a JSON object, each value as written; raises ValueError on anything else."""
    place = _expect(text, 0, "{")
    while True:
        key, place = _DECODER.raw_decode(text, place)
        if not isinstance(key, str):
            raise ValueError("a key must be a string")
        start = _expect(text, _SPACE.match(text, place).end(), ":")  # type: ignore[union-attr] # it always matches
        _, place = _DECODER.raw_decode(text, start)
        yield key, text[start:place]
        place = _SPACE.match(text, place).end()  # type: ignore[union-attr] # it always matches
        if text[place] == "}":
            if place + 1 != len(text):
                raise ValueError("text after the object")
            return
        place = _expect(text, place, ",")


def _expect(text: str, place: int, character: str) -> int:
    if text[place] != character:
        raise ValueError(f"expected {character}")
    return _SPACE.match(text, place + 1).end()  # type: ignore[union-attr] # it always matches


def _parse(text: str) -> Any:
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return text
    # A model may write half an emoji as an escape. The text keeps it; a chat template would write what no tokenizer takes.
    return mend_texts(parsed) if isinstance(parsed, dict) else text


# A conversation sends the same calls with every request.
_parse_remembered = lru_cache(maxsize=4096)(_parse)
