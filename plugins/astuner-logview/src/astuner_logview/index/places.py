"""Where indexes are."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from pathlib import Path

from astuner.shared.private_files import DIRECTORY_MODE
from astuner_logview.index.schema import VERSION


def find_cache() -> Path:
    """Return the directory of all indexes, made for this user alone."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    cache = root / "astuner" / "logview"
    try:
        root.mkdir(parents=True, exist_ok=True)
        for path in (cache.parent, cache):
            path.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
    except OSError:
        return _find_temporary()
    return cache if os.access(cache, os.W_OK | os.X_OK) else _find_temporary()


def _find_temporary() -> Path:
    """Return a directory of this user's for a home that cannot be written to; raises PermissionError if it is not private."""
    path = Path(tempfile.gettempdir()) / f"astuner-logview-{os.getuid()}"
    path.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise PermissionError(f"{path}: is not a directory of this user alone; delete it, or set XDG_CACHE_HOME")
    return path


def find_index(run: Path) -> Path:
    """Return the file of a run's index, by the run's real path; servers of another version have their own."""
    digest = hashlib.sha256(str(run).encode("utf-8", "surrogateescape")).hexdigest()
    return find_cache() / f"{digest[:32]}-{VERSION}.sqlite"
