"""Files that only their user may read: everything in a run directory, and the records of what was started.

A directory is closed first, so that its files are out of reach at every moment, whoever writes them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

FILE_MODE = 0o600
DIRECTORY_MODE = 0o700

_PROJECT = (".git", "pyproject.toml", "setup.py")
"""What a directory of the user's own work has, and none of a run."""


def open_private(path: Path, mode: str, *, buffering: int = -1, errors: str | None = None) -> Any:
    """Open a file for writing, readable by its user alone if it is made here; text is UTF-8."""
    encoding = None if "b" in mode else "utf-8"
    return open(path, mode, buffering, encoding, errors, opener=lambda name, flags: os.open(name, flags, FILE_MODE))
