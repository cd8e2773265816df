"""Which directory a path of the YAML starts from, and what a misspelt one probably meant."""

from __future__ import annotations

import os
from pathlib import Path

from astuner.settings.config.structure_errors import find_closest


def resolve_path(value: str | Path, config_dir: Path) -> Path:
    """Return a path of the YAML as an absolute one, relative to the YAML's directory; `~` is the user's home."""
    return Path(os.path.abspath(config_dir / Path(value).expanduser()))


def find_model_directory(value: str, config_dir: Path) -> Path | None:
    """Return the directory of a model, whether or not it exists; None when `model.path` is a name such as `org/name`."""
    directory = resolve_path(value, config_dir)
    looks_like_path = value.startswith(("/", "./", "../", "~")) or value in (".", "..") or value.count("/") > 1
    return directory if looks_like_path or os.path.isdir(directory) else None


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
