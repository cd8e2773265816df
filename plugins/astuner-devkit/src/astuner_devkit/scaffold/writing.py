"""Writing a package to disk: completely or not at all, and never over existing files."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from astuner.contract.errors import UsageError


def write_package(directory: Path, files: Mapping[str, str]) -> None:
    """Write files below a directory that is new or empty; raises `UsageError` naming the obstacle or the failure."""
    _check_free(directory)
    try:
        # Written next to its place and then renamed, so that a failure leaves nothing behind.
        beside = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
        try:
            for path, text in files.items():
                file = beside / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
            beside.chmod(0o777 & ~_read_umask())
            beside.rename(directory)
        except BaseException:
            shutil.rmtree(beside, ignore_errors=True)
            raise
    except OSError as error:
        raise UsageError(f"{directory}: cannot be written: {error.strerror or error}; nothing was written") from error


def _check_free(directory: Path) -> None:
    if not directory.parent.is_dir():
        raise UsageError(f"--dir {directory.parent}: there is no such directory; create it first, or name another")
    if directory.is_symlink():
        found = "this is a link"
    elif directory.exists() and not directory.is_dir():
        found = "this is a file"
    elif names := sorted(path.name for path in directory.iterdir()) if directory.exists() else []:
        found = f"holds '{names[0]}'{f' and {len(names) - 1} more' if len(names) > 1 else ''}"
    else:
        return
    raise UsageError(f"{directory}: {found}, and nothing is overwritten; move it away, or give another DIST or --dir")


def _read_umask() -> int:
    # The mask can only be read by setting it.
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
