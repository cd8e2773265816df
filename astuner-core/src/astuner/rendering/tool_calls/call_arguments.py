"""The arguments of a tool call, parsed once: a conversation sends the same calls with each of its requests."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

LONGEST_REMEMBERED = 2048
"""Characters of arguments that are remembered."""


def parse_arguments(text: str) -> Any:
    """Return the parsed arguments of a tool call, or the text itself if it is not a JSON object. Not to be written to."""
    return _parse_remembered(text) if len(text) <= LONGEST_REMEMBERED else _parse(text)


def _parse(text: str) -> Any:
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return parsed if isinstance(parsed, dict) else text


_parse_remembered = lru_cache(maxsize=4096)(_parse)
