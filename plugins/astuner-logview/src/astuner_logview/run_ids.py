"""The names of runs in addresses."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path


def make_run_id(path: Path, real: Path | None = None) -> str:
    """Return the id of the run in a directory: stable, and not a path. `real` is the path without links, if it is known."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", path.absolute().name)[:60].strip("-.") or "run"
    digest = hashlib.sha256(str(real or path.resolve()).encode("utf-8", "surrogateescape")).hexdigest()
    return f"{name}-{digest[:10]}"
