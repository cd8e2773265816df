"""What the gateway's routes take and answer, as an OpenAPI document: real answers are held to it, and a fuzzer reads it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml


@cache
def document() -> Mapping[str, Any]:
    """Return the OpenAPI document, put together from one part for each API."""
    parts = sorted(Path(__file__).parent.glob("*.yaml"))
    described: dict[str, Any] = {}
    for part in parts:
        _add(described, yaml.safe_load(part.read_text(encoding="utf-8")))
    return described


def _add(described: dict[str, Any], part: Mapping[str, Any]) -> None:
    for name, value in part.items():
        if isinstance(value, dict) and isinstance(described.get(name), dict):
            _add(described[name], value)
        elif name in described:
            raise ValueError(f"two parts of the OpenAPI document define {name!r}")
        else:
            described[name] = value
