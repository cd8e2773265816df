"""What the search box shows while a filter is typed."""

from __future__ import annotations

from typing import Any

from astuner_logview.filters.keys import KEYS
from astuner_logview.filters.language import parse_filter


def describe_filter(text: str) -> dict[str, Any]:
    """Return the terms of a filter, and every key with what it means; raises `BadRequest`."""
    found = parse_filter(text)
    return {
        "terms": [
            {"key": term.key, "op": term.op, "value": term.value, "at": term.at, "text": term.text, "name": term.name or None}
            for term in found.terms
        ],
        "words": [word.text for word in found.words],
        "keys": [
            {"key": name, "kind": key.kind, "meaning": key.meaning, "examples": list(key.examples)} for name, key in KEYS.items()
        ],
    }
