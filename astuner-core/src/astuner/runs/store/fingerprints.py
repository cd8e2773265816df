"""What identifies the files that a run depends on, cheaply enough to be computed at every start."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from astuner.contract.errors import UsageError
from astuner.settings.config.adapters import MANIFEST

WHOLE = 64 << 20
"""Larger files are not read whole: 64 blocks, evenly spaced, the first and the last one among them, and the size."""
_BLOCKS, _BLOCK = 64, 1 << 20


def fingerprint_file(path: Path) -> str:
    """Return `SIZE:DIGEST` of a file; any training changes every block of weights, so a part of a large file identifies it.

    Raises `UsageError` for a file that cannot be read.
    """
    digest = hashlib.sha256()
    try:
        with path.open("rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            if size <= WHOLE:
                while chunk := file.read(_BLOCK):
                    digest.update(chunk)
            else:
                for number in range(_BLOCKS):
                    file.seek((size - _BLOCK) * number // (_BLOCKS - 1))
                    digest.update(file.read(_BLOCK))
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read, so a resume could not notice a change of it: {error.strerror or error}"
        ) from error
    return f"{size}:{digest.hexdigest()[:32]}"


def fingerprint_bytes(content: bytes) -> str:
    """Return the fingerprint of a file with this content, of up to `WHOLE` bytes."""
    return f"{len(content)}:{hashlib.sha256(content).hexdigest()[:32]}"


def fingerprint_files(paths: Iterable[Path], relative_to: Path) -> dict[str, str]:
    """Return the fingerprints of the files that exist, by their paths as seen from a directory."""
    return {name_file(path, relative_to): fingerprint_file(path) for path in sorted(set(paths)) if path.is_file()}


def fingerprint_model(directory: Path) -> dict[str, str]:
    """Return the fingerprints of a model's files: configuration, tokenizer, weights. Notes for people are left out."""
    files = (path for path in directory.iterdir() if not path.name.startswith(".") and path.suffix.lower() != ".md")
    return fingerprint_files((path for path in files if path.is_file() and path.name != MANIFEST), directory)


def name_file(path: Path, relative_to: Path) -> str:
    """Return a path as it is seen from a directory, so that a project that was moved has the same names."""
    return os.path.relpath(path, relative_to)


def compare_fingerprints(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """Return what became of each file that changed, by its name."""
    found = {}
    for name in sorted(before.keys() | now.keys()):
        old, new = before.get(name), now.get(name)
        if old == new:
            continue
        if old is None or new is None:
            found[name] = "is new" if old is None else "is gone"
            continue
        (old_size, _, old_digest), (new_size, _, new_digest) = old.partition(":"), new.partition(":")
        sizes = f"{int(old_size):,} bytes then, {int(new_size):,} now" if old_size != new_size else f"{int(new_size):,} bytes"
        found[name] = f"changed ({sizes}; sha256 {old_digest[:8]}… then, {new_digest[:8]}… now)"
    return found
