"""Writing the filters that pages link to."""

from __future__ import annotations

import re


def quote_value(text: str) -> str:
    """Return a value as a filter reads it."""
    if re.fullmatch(r"[\w.-]+", text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
