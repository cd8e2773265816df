"""Files into a directory that a program may have changed, and out of it: no link is followed, no pipe is waited for."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from astuner.contract.errors import ServiceUnavailable

UNCOUNTABLE = 2**63
"""Bytes, more than any limit."""
LONGEST_PATH = 1000 if sys.platform == "darwin" else 4000
"""Bytes; a little less than what the system takes."""
MOST_FILES = 100_000
"""Files that are looked at for patterns."""


def write_files(base: Path, files: Mapping[str, bytes], *, owner: int | None) -> None:
    """Write files below a directory, for `owner` if given; raises `ServiceUnavailable` where a link or a file is in the way."""
    for name, content in files.items():
        parts = split_path(name)
        folder = os.open(base, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for part in parts[:-1]:
                folder = _enter(folder, part, owner)
            with suppress(FileNotFoundError):
                os.unlink(parts[-1], dir_fd=folder)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            with os.fdopen(os.open(parts[-1], flags, 0o755 if content.startswith(b"#!") else 0o644, dir_fd=folder), "wb") as file:
                file.write(content)
                if owner is not None:
                    os.fchown(file.fileno(), owner, owner)
        except OSError as error:
            raise ServiceUnavailable(f"{name} cannot be written into the sandbox: {error.strerror}") from error
        finally:
            os.close(folder)


def split_path(name: str) -> tuple[str, ...]:
    """Return the parts of a relative path; raises `ValueError` for one that is absolute, empty or leads out."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in name:
        raise ValueError(f"{name!r} must be a relative path of a file, without '..'")
    return path.parts


def read_files(base: Path, patterns: Sequence[str], *, max_bytes: int) -> Mapping[str, bytes]:
    """Return the regular files that match a pattern, by path, as long as they fit into `max_bytes` in all."""
    from astuner_agents.sandboxes.path_patterns import compile_patterns

    matches = compile_patterns(patterns)
    found: dict[str, bytes] = {}
    left = max_bytes
    for path in sorted(name for name in _list_files(base) if matches(name)):
        content = _read(base, path, left)
        if content is not None:
            found[path] = content
            left -= len(content)
    return found


def measure(*directories: Path) -> int:
    """Return the bytes that files in the directories take on disk, and what their entries would take at least.

    `UNCOUNTABLE` if a directory is so deep that its path is too long for the system.
    """
    total, waiting = 0, [str(directory) for directory in directories]
    while waiting:
        folder = waiting.pop()
        # Anything may vanish meanwhile.
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if len(os.fsencode(entry.path)) >= LONGEST_PATH:
                    # Files could be hidden where they are not counted.
                    return UNCOUNTABLE
                with suppress(OSError):
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
    return total


def _enter(folder: int, part: str, owner: int | None) -> int:
    """Return the directory `part` of an open one, which is closed; it is made if it does not exist."""
    try:
        with suppress(FileExistsError):
            os.mkdir(part, 0o755, dir_fd=folder)
            if owner is not None:
                os.chown(part, owner, owner, dir_fd=folder, follow_symlinks=False)
        inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
    except OSError:
        # The caller closes `folder`.
        raise
    os.close(folder)
    return inner


def _list_files(base: Path) -> Iterator[str]:
    count, waiting = 0, [""]
    while waiting:
        inside = waiting.pop()
        with suppress(OSError), os.scandir(base / inside) as entries:
            for entry in entries:
                count += 1
                if count > MOST_FILES:
                    return
                path = f"{inside}/{entry.name}" if inside else entry.name
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(path)
                elif entry.is_file(follow_symlinks=False) and _is_text(path):
                    yield path


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _read(base: Path, path: str, most: int) -> bytes | None:
    """Return a file's content; None for one that is too large, is no regular file, or is reached over a link."""
    folder = os.open(base, os.O_RDONLY | os.O_DIRECTORY)
    *parents, name = PurePosixPath(path).parts
    try:
        for part in parents:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
        with os.fdopen(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder), "rb") as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode) or facts.st_size > most:
                return None
            content = file.read(most + 1)
            return content if len(content) <= most else None
    except OSError:
        return None
    finally:
        os.close(folder)
