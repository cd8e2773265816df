"""The description of the gateway's routes for machines: clients, and those who try to break it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import yaml


@cache
def document() -> Mapping[str, Any]:
    """Return the OpenAPI document, put together from one part for each API."""
    parts = sorted((part for part in files("astuner.gateway").joinpath("openapi_parts").iterdir()), key=lambda part: part.name)
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
