"""The bills of materials are what the packages require and hold."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

SCRIPT: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "write_sboms.py"))


@pytest.mark.parametrize("folder", SCRIPT["folders"](), ids=lambda path: path.name)
def test_a_bill_is_up_to_date(folder: Path) -> None:
    assert (folder / SCRIPT["NAME"]).read_text(encoding="utf-8") == SCRIPT["build_document"](folder), "run scripts/write_sboms.py"


def test_the_bill_of_the_viewer_names_the_libraries_that_lie_in_it() -> None:
    (viewer,) = (folder for folder in SCRIPT["folders"]() if folder.name == "astuner-logview")
    listed = {part["purl"] for part in json.loads(SCRIPT["build_document"](viewer))["components"]}
    packages = json.loads((viewer / "package.json").read_text(encoding="utf-8"))["devDependencies"]
    assert {name for name in packages if any(purl.startswith(f"pkg:npm/{name.replace('@', '%40')}@") for purl in listed)} == {
        *packages
    } - {"typescript"}
