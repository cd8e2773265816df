"""The file or directory that a misspelt path probably meant."""

from __future__ import annotations

import os
from pathlib import Path

from astuner.settings.config.paths import resolve_path
from astuner.settings.config.structure_errors import find_closest


def find_similar_path(written: str, config_dir: Path) -> str | None:
    """Return an existing path similar to a missing one, written in the same way; None when there is none."""
    missing = resolve_path(written, config_dir)
    found = Path(missing.anchor)
    for part in missing.parts[1:]:
        if not os.path.exists(found / part):
            similar = _find_similar_name(part, found)
            if similar is None:
                return None
            found /= similar
        else:
            found /= part
    return _write_like(found, written, config_dir)


def _find_similar_name(name: str, directory: Path) -> str | None:
    try:
        names = os.listdir(directory)
    except OSError:
        return None
    # A common ending such as `.jsonl` does not make two names similar.
    stem, ending = os.path.splitext(name)
    stems = [os.path.splitext(other)[0] for other in names if os.path.splitext(other)[1] == ending]
    similar = find_closest(stem, stems)
    return similar + ending if similar is not None else find_closest(name, names, likeness=0.8)


def _write_like(path: Path, written: str, config_dir: Path) -> str:
    if Path(written).is_absolute() or written.startswith("~"):
        return str(path)
    relative = os.path.relpath(path, config_dir)
    return f"./{relative}" if written.startswith("./") else relative
