"""The output of a workflow as JSON values, which processes and the run store exchange."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def convert_to_json(mapping: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the mapping as it will be read back from JSON, and the keys whose values were converted to text.

    Done at the end of each episode, so that a judge sees the same in a resumed run.
    """
    found: dict[str, Any] = {}
    changed: list[str] = []
    for key, value in mapping.items():
        try:
            found[str(key)] = json.loads(json.dumps(value))
        except (TypeError, ValueError):
            found[str(key)] = str(value)
            changed.append(str(key))
    return found, changed
