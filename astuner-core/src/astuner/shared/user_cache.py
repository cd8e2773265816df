"""What is kept between runs below the user's cache directory. Each file may be missing, and is only as good as no file if broken."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from astuner.shared.private_files import make_private_directory, open_stored

_SEAL_BYTES = 32


def find_cache(kind: str) -> Path:
    """Return the directory of a kind of files; raises `RuntimeError` for a user without a home."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "astuner" / kind


def read_cached(kind: str, name: str) -> bytes | None:
    """Return what was written under a name; None if it is missing or damaged."""
    with suppress(OSError, RuntimeError):
        path = find_cache(kind) / name
        with open_stored(path) as file:
            content = file.read()
        if sha256(content[_SEAL_BYTES:]).digest() == content[:_SEAL_BYTES]:
            os.utime(path)
            return bytes(content[_SEAL_BYTES:])
    return None


def write_cached(kind: str, name: str, content: bytes, *, most_bytes: int) -> None:
    """Keep content that the user alone may read, in place of what has the name.

    The files that were not used for longest are removed until all of the kind are within `most_bytes`. If the directory cannot be
    written, nothing is kept.
    """
    with suppress(OSError, RuntimeError):
        directory = find_cache(kind)
        make_private_directory(directory)
        handle, beside = tempfile.mkstemp(dir=directory)
        with open(handle, "wb") as file:
            file.write(sha256(content).digest() + content)
        os.replace(beside, directory / name)
        left = most_bytes
        for path in sorted(directory.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True):
            left -= path.stat().st_size
            if left < 0:
                path.unlink()
