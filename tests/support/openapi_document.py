"""What the gateway's routes take and answer, as an OpenAPI document: real answers are held to it, and a fuzzer reads it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

CORE = Path(__file__).parents[2] / "astuner-core" / "tests" / "gateway" / "openapi"


@cache
def read_document(folder: Path = CORE) -> Mapping[str, Any]:
    """Return an OpenAPI document, put together from core's and one part in the folder for each API."""
    described: dict[str, Any] = {}
    for part in sorted({*CORE.glob("*.yaml"), *folder.glob("*.yaml")}):
        _add(described, yaml.safe_load(part.read_text(encoding="utf-8")))
    return described


@pytest.fixture
def api_document(request: pytest.FixtureRequest) -> Mapping[str, Any]:
    """Return the document of the APIs that the module tests."""
    return read_document(request.path.parent / "openapi")


def _add(described: dict[str, Any], part: Mapping[str, Any]) -> None:
    for name, value in part.items():
        if isinstance(value, dict) and isinstance(described.get(name), dict):
            _add(described[name], value)
        elif name in described:
            raise ValueError(f"two parts of the OpenAPI document define {name!r}")
        else:
            described[name] = value
