"""Halves of surrogate pairs: JSON may hold them, but no text that is sent or stored as UTF-8."""

from __future__ import annotations

import json
from typing import Any


def has_half_pair(value: Any) -> bool:
    """Whether a text in a JSON value holds half a surrogate pair."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def mend_pairs(text: str) -> str:
    """Return a text with U+FFFD for each half of a surrogate pair, and the character for two halves that belong together."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
