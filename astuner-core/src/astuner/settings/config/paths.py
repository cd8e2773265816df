"""Which directory a path of the YAML starts from."""

from __future__ import annotations

import os
from pathlib import Path


def resolve_path(value: str | Path, config_dir: Path) -> Path:
    """Return a path of the YAML as an absolute one, relative to the YAML's directory; `~` is the user's home."""
    return Path(os.path.abspath(config_dir / Path(value).expanduser()))


def find_model_directory(value: str, config_dir: Path) -> Path | None:
    """Return the directory of a model, whether or not it exists; None when `model.path` is a name such as `org/name`."""
    directory = resolve_path(value, config_dir)
    looks_like_path = value.startswith(("/", "./", "../", "~")) or value in (".", "..") or value.count("/") > 1
    return directory if looks_like_path or os.path.isdir(directory) else None
