"""What is kept between starts below the user's cache directory: a file that is missing, or damaged, only costs time."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from astuner.shared.private_files import make_private_directory, open_stored


def read_cached(kind: str, name: str) -> bytes | None:
    """Return what was kept under a name; None if nothing was, or it is damaged."""
    with suppress(OSError, RuntimeError):
        with open_stored(path := _find_directory(kind) / name) as file:
            seal, content = file.read(32), file.read()
        if seal == sha256(content).digest():
            os.utime(path)
            return bytes(content)
    return None


def keep_cached(kind: str, name: str, content: bytes, *, most_bytes: int) -> None:
    """Keep content for the user alone; of this kind, those unused for longest are deleted until the rest has `most_bytes`.

    Where the directory cannot be written, nothing is kept.
    """
    with suppress(OSError, RuntimeError):
        make_private_directory(directory := _find_directory(kind))
        handle, beside = tempfile.mkstemp(dir=directory)
        with open(handle, "wb") as file:
            file.write(sha256(content).digest() + content)
        os.replace(beside, directory / name)
        for path in sorted(directory.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True):
            most_bytes -= path.stat().st_size
            if most_bytes < 0:
                path.unlink()


def _find_directory(kind: str) -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "astuner" / kind
