"""What core knows of packages that are not installed is what their pyproject.toml files say."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).parents[2] / "scripts" / "write_known_packages.py"


def script() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


def test_the_file_of_known_packages_is_up_to_date() -> None:
    found = script()
    assert found["KNOWN_PACKAGES"].read_text(encoding="utf-8") == found["build_document"](), "run scripts/write_known_packages.py"


def test_what_a_component_needs_are_the_extras_of_its_entry_point_and_the_one_of_its_name() -> None:
    project = {"name": "acme", "optional-dependencies": {"strict-judge": [], "web": [], "other": []}}
    requirement_of = script()["requirement_of"]
    assert requirement_of(project, "plain", "acme:Plain") == "acme"
    assert requirement_of(project, "strict_judge", "acme:Strict [web]") == "acme[strict-judge,web]"
