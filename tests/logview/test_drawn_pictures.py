"""The pictures of the documents are drawn by a command that runs."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from pathlib import Path

from browser_tools import BrowserTools
from harness import REPOSITORY

DOCS = REPOSITORY / "docs"
PICTURE = re.compile(r"images/(logview-[\w-]+\.png)")
LEAST_BYTES = 30_000
"""Of a picture; a page with its answers takes 50 kB and more."""


def read_size(picture: Path) -> tuple[int, int]:
    """Return the width and the height of a PNG."""
    return struct.unpack(">II", picture.read_bytes()[16:24])


def test_every_picture_that_a_document_names_is_drawn(tools: BrowserTools, record: Path, tmp_path: Path) -> None:
    named = {name for page in ("docs/logview.md", "README.md") for name in PICTURE.findall((REPOSITORY / page).read_text())}

    out = tmp_path / "images"
    out.mkdir()
    command = [sys.executable, DOCS / "draw_logview.py", tools.chromium, record / "pebbles", "--step", "2", "--out", out]

    done = subprocess.run(
        list(map(str, command)),
        env={**tools.environment, "XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    drawn = {path.name: path for path in out.iterdir()}
    assert set(drawn) == named
    assert {name: read_size(path) for name, path in drawn.items()} == {name: read_size(DOCS / "images" / name) for name in named}
    assert [name for name, path in drawn.items() if path.stat().st_size < LEAST_BYTES] == []
