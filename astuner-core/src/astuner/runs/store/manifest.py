"""The manifest of a checkpoint: the size and digest of each of its files, so that damage is found before anything is loaded."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from attrs import frozen

from astuner.contract.errors import RunFailed, UsageError
from astuner.runs.store.atomic import sync_directory, write_json
from astuner.settings.config.adapters import MANIFEST
from astuner.shared.private_files import open_stored

DIGEST = "sha256"
"""Faster than BLAKE2 where the processor has instructions for it; 128 bits of it are kept."""

_READERS = 4
"""Files read at a time: hashing takes longer than reading."""
_CHUNK = 1 << 20


class DamagedCheckpoint(RunFailed):
    """A checkpoint whose files are not those that were written."""

    def __init__(self, path: Path, damage: Sequence[str], remedy: str) -> None:
        """Name the first of the damaged files."""
        more = f" ({len(damage) - 1} more)" if len(damage) > 1 else ""
        super().__init__(f"{path}/{damage[0]}{more}; {remedy}")


@frozen(kw_only=True)
class _Facts:
    """What the manifest says of a file."""

    bytes: int
    digest: str


def write_manifest(checkpoint: Path) -> None:
    """Make every file and folder of a checkpoint durable, and write its manifest.

    The files are read once: a digest is of what the system holds of them. Links are followed.
    """
    files = list(_list_files(checkpoint))
    with ThreadPoolExecutor(_READERS) as pool:
        found = list(pool.map(_sync_and_measure, files))
    for folder, _, _ in os.walk(checkpoint, topdown=False):
        sync_directory(Path(folder))
    rows = {str(file.relative_to(checkpoint)): facts for file, facts in zip(files, found, strict=True)}
    listed = {name: {"bytes": facts.bytes, "digest": facts.digest} for name, facts in rows.items()}
    write_json(checkpoint / MANIFEST, {"format": 1, "digest": DIGEST, "written_at": str(checkpoint.resolve()), "files": listed})


def find_damage(checkpoint: Path) -> list[str]:
    """Return what is wrong with the files of a checkpoint, each as `FILE: what`; nothing if they are as they were written.

    Reads every file. One without a manifest was written by an older version, or by other tools: of its safetensors files only
    the lengths are compared with their headers, and JSON files must be valid. Raises `UsageError` for files that this user may
    not read.
    """
    if not checkpoint.is_dir():
        return [f"{MANIFEST}: missing, with the whole checkpoint"]
    manifest = checkpoint / MANIFEST
    if not manifest.exists():
        files = list(_list_files(checkpoint))
        return [f"{file.relative_to(checkpoint)}: {what}" for file in files if (what := _check_format(file)) is not None] or (
            [] if files else [f"{MANIFEST}: missing, like all other files"]
        )
    try:
        listed = _read_manifest(manifest)
    except PermissionError as error:
        raise _refuse(manifest) from error
    except (OSError, ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
        return [f"{MANIFEST}: damaged ({type(error).__name__}: {error})"]
    with ThreadPoolExecutor(_READERS) as pool:
        found = pool.map(lambda name: _compare(checkpoint / name, listed[name]), listed)
        return [f"{name}: {what}" for name, what in zip(listed, found, strict=True) if what is not None]


def _list_files(checkpoint: Path) -> Iterator[Path]:
    return (path for path in sorted(checkpoint.rglob("*")) if path.is_file() and path != checkpoint / MANIFEST)


def _read_manifest(path: Path) -> dict[str, _Facts]:
    with open_stored(path) as file:
        document = json.loads(file.read())
    if document["digest"] != DIGEST:
        raise ValueError(f"its digests are of kind {document['digest']!r}; this version knows {DIGEST}")
    return {name: _Facts(bytes=int(facts["bytes"]), digest=str(facts["digest"])) for name, facts in document["files"].items()}


def _sync_and_measure(path: Path) -> _Facts:
    with open_stored(path, buffering=0) as file:
        os.fsync(file.fileno())
        return _measure(file)


def _compare(path: Path, wanted: _Facts) -> str | None:
    """Return how a file differs from what the manifest says of it; None if it does not."""
    try:
        with open_stored(path, buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            if size != wanted.bytes:
                return f"damaged: has {size:,} bytes, and had {wanted.bytes:,} when it was written"
            _forget_cached(file.fileno())
            found = _measure(file)
    except FileNotFoundError:
        return "missing"
    except PermissionError as error:
        raise _refuse(path) from error
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    if found.digest != wanted.digest:
        return f"damaged: its {DIGEST} is {found.digest[:16]}…, and was {wanted.digest[:16]}… when it was written"
    return None


def _refuse(path: Path) -> UsageError:
    # The file may be whole: no reason to go on from an earlier checkpoint.
    return UsageError(f"{path}: cannot be read by this user; change its permissions")


def _forget_cached(handle: int) -> None:
    """Let what is read come from the disk where the system allows it: reading back what was written proves little otherwise."""
    if hasattr(os, "posix_fadvise"):  # not on macOS
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)


def _measure(file: Any) -> _Facts:
    digest, buffer, size = hashlib.new(DIGEST), bytearray(_CHUNK), 0
    view = memoryview(buffer)
    while count := file.readinto(buffer):
        digest.update(view[:count])
        size += count
    return _Facts(bytes=size, digest=digest.hexdigest()[:32])


def _check_format(path: Path) -> str | None:
    """Return what is wrong with a file as its format goes; None if nothing is, or the format is not known."""
    try:
        if path.suffix == ".json":
            with open_stored(path) as file:
                json.loads(file.read())
        elif path.suffix == ".safetensors":
            return _check_safetensors(path)
    except PermissionError as error:
        raise _refuse(path) from error
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    except (ValueError, RecursionError) as error:
        return f"damaged: not valid JSON ({error})"
    return None


def _check_safetensors(path: Path) -> str | None:
    """Compare a file's length with its header: 8 bytes of length, a JSON object of tensors with their offsets, the data."""
    size = path.stat().st_size
    with open_stored(path) as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > size - 8:
            return f"damaged: has {size:,} bytes, less than its header"
        header = json.loads(file.read(length))
    try:
        ends = [int(facts["data_offsets"][1]) for name, facts in header.items() if name != "__metadata__"]
    except (LookupError, TypeError, AttributeError):
        return "damaged: its header does not list tensors"
    wanted = 8 + length + max(ends, default=0)
    return None if size == wanted else f"damaged: has {size:,} bytes, and {wanted:,} by its header"
