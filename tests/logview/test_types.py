"""The types in the comments of the pages' modules, by the TypeScript compiler."""

from __future__ import annotations

import shutil
import subprocess

from browser_tools import BrowserTools
from harness import REPOSITORY

PLUGIN = REPOSITORY / "plugins/astuner-logview"


def test_the_modules_of_the_pages_are_well_typed(tools: BrowserTools) -> None:
    node = shutil.which("node")
    assert node is not None
    command = [node, tools.tsc, "-p", PLUGIN / "jsconfig.json", "--pretty", "false"]

    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)

    assert done.stdout + done.stderr == ""
    assert done.returncode == 0


def test_every_module_asks_for_the_check(tools: BrowserTools) -> None:
    modules = sorted((PLUGIN / "src/astuner_logview/static/app").rglob("*.js"))

    unchecked = [path.name for path in modules if "// @ts-check" not in path.read_text(encoding="utf-8")[:200]]

    assert modules
    assert unchecked == []
