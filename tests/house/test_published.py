"""What core knows of packages that are not installed is what their pyproject.toml files say."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).parents[2] / "scripts" / "write_published.py"


def script() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


def test_the_published_components_are_those_of_the_packages() -> None:
    found = script()
    assert found["PUBLISHED"].read_text(encoding="utf-8") == found["document"](), "run scripts/write_published.py"


def test_what_a_component_needs_are_the_extras_of_its_entry_point_and_the_one_of_its_name() -> None:
    project = {"name": "acme", "optional-dependencies": {"strict-judge": [], "web": [], "other": []}}
    requirement_of = script()["requirement_of"]
    assert requirement_of(project, "plain", "acme:Plain") == "acme"
    assert requirement_of(project, "strict_judge", "acme:Strict [web]") == "acme[strict-judge,web]"
