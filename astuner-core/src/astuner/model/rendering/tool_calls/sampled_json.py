"""JSON from sampled text, each value as the model wrote it, and the arguments of tool calls as values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from astuner.contract.plain_values import mend_text, mend_texts
from astuner.model.rendering.reply_parser import Piece

_SPACE = re.compile(r"[ \t\n\r]*")
_NINE = re.compile(r'"([A-Za-z0-9]{9})"')
_DECODER = json.JSONDecoder()

LONGEST_REMEMBERED = 2048
"""Characters of arguments that are remembered."""


def read_call(block: str, name_key: str = "name", keys: Sequence[str] = ("arguments",)) -> Piece | None:
    """Return the call `{"name": …, "arguments": …}`; None if it cannot be read.

    The arguments are the model's own text, under one of `keys`; null is none. Without a `name_key` the only key is the name.
    """
    try:
        members = dict(_split_members(block.strip()))
        if not name_key:
            ((name, written),) = members.items()
        else:
            name = json.loads(members[name_key])
            written = next(members[key] for key in keys if key in members)
        arguments = json.loads(written)
        # Some models write the arguments as a string that holds JSON.
        if isinstance(arguments, str):
            written = arguments.strip() or "{}"
            arguments = json.loads(written)
    except (ValueError, KeyError, IndexError, StopIteration, RecursionError):
        return None
    if not isinstance(name, str) or not name or not isinstance(arguments, dict | None):
        return None
    return Piece("tool_call", "{}" if arguments is None else mend_text(written), mend_text(name), _read_id(members))


def _read_id(members: Mapping[str, str]) -> str:
    """Return the id of a call in the only form that a template insists on: nine letters or digits (Mistral)."""
    found = _NINE.fullmatch(members.get("id", ""))
    return found[1] if found else ""


def parse_arguments(text: str) -> Any:
    """Return the parsed arguments of a tool call, or the text itself if it is not a JSON object. Do not modify it."""
    return _parse_remembered(text) if len(text) <= LONGEST_REMEMBERED else _parse(text)


def read_object(text: str) -> str | None:
    """Return the text of a JSON object without surrounding white space; None for anything else."""
    text = text.strip()
    return text if isinstance(_parse(text), dict) else None


def ends_in_string(text: str) -> bool:
    """Whether a text is the beginning of JSON that breaks off inside a string."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return error.msg.startswith("Unterminated string")
    except (ValueError, RecursionError):
        pass
    return False


def find_value_end(text: str, place: int) -> int | None:
    """Return the end of the JSON value that begins at a place; None if it is cut off or invalid."""
    try:
        return _DECODER.raw_decode(text, place)[1]
    except (ValueError, IndexError, RecursionError):
        return None


def split_values(text: str) -> list[str] | None:
    """Return the elements of a JSON array, or JSON values in a row, each as written; None if they cannot be read."""
    found: list[str] = []
    text = text.strip()
    listed = text.startswith("[")
    try:
        place = _expect(text, 0, "[") if listed else 0
        while place < len(text) and text[place] != "]":
            _, end = _DECODER.raw_decode(text, place)
            found.append(text[place:end])
            place = _SPACE.match(text, end).end()  # type: ignore[union-attr] # it always matches
            if place < len(text) and text[place] == ",":
                place = _expect(text, place, ",")
        return found if text[place:] == "]" * listed else None
    except (ValueError, IndexError, RecursionError):
        return None


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
