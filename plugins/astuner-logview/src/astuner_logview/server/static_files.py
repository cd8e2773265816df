"""The files of the pages, from the package and from nowhere else."""

from __future__ import annotations

import re
from importlib.resources import files
from importlib.resources.abc import Traversable

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".woff2": "font/woff2",
    ".txt": "text/plain; charset=utf-8",
}
"""What is served, by suffix; other files of the package are not."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def static_root() -> Traversable:
    """Return the folder of the pages in the package."""
    return files("astuner_logview") / "static"


def find_static(path: str) -> Traversable | None:
    """Return a file of the pages by its path below the folder; None if the package has no such file."""
    place = static_root()
    for name in path.split("/"):
        if not _NAME.fullmatch(name) or not place.is_dir():
            return None
        place = place / name
    return place if place.is_file() and content_type(place.name) is not None else None


def content_type(name: str) -> str | None:
    """Return the MIME type of a file name, None for files that are not served."""
    return next((kind for suffix, kind in TYPES.items() if name.endswith(suffix)), None)
