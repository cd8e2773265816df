"""Writing a package to disk: completely or not at all, and never over existing files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from astuner.contract.errors import UsageError
from astuner.runs.store.atomic import write_directory


def write_package(directory: Path, files: Mapping[str, str]) -> None:
    """Write files below a directory that is new or empty; raises `UsageError` naming the obstacle or the failure."""
    _check_free(directory)
    with write_directory(directory) as made:
        for path, text in files.items():
            file = made / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")


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
