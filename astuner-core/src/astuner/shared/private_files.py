"""Files that only their user may read: everything in a run directory, and the records of what was started.

A directory is closed first, so that its files are out of reach at every moment, whoever writes them.
"""

from __future__ import annotations

import errno
import os
import stat
from functools import partial
from pathlib import Path
from typing import Any

FILE_MODE = 0o600
DIRECTORY_MODE = 0o700
_KINDS = {stat.S_IFREG: "a file", stat.S_IFDIR: "a directory", stat.S_IFLNK: "a link", stat.S_IFIFO: "a pipe"}

_PROJECT = (".git", "pyproject.toml", "setup.py")
"""What a directory of the user's own work has, and none of a run."""


def open_private(path: Path, mode: str, *, buffering: int = -1, errors: str | None = None) -> Any:
    """Open a file for writing, readable by its user alone if it is made here; text is UTF-8. Links are not followed."""
    encoding = None if "b" in mode else "utf-8"
    return open(path, mode, buffering, encoding, errors, opener=partial(open_regular, follows=False))


def open_stored(path: Path, *, buffering: int = -1) -> Any:
    """Open a file for reading as bytes; raises `OSError` for anything else: a pipe would keep its reader waiting."""
    return open(path, "rb", buffering, opener=open_regular)


def open_regular(path: str | Path, flags: int = os.O_RDONLY, *, follows: bool = True) -> int:
    """Return the handle of a file, never that of a pipe or a device; `follows` links."""
    if found := find_stranger(path, follows=follows):
        raise OSError(errno.EINVAL, f"is {found}, and not a file", str(path))
    return os.open(path, flags | os.O_NONBLOCK | (0 if follows else os.O_NOFOLLOW), FILE_MODE)


def find_stranger(path: str | Path, *, follows: bool = True, wanted: str = "a file") -> str | None:
    """Return what is in the place of a file, or of a directory; None for what is `wanted`, and for nothing."""
    try:
        mode = os.stat(path, follow_symlinks=follows).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        mode = stat.S_IFLNK
    found = _KINDS.get(stat.S_IFMT(mode), "a device or a socket")
    return None if found == wanted else found


def make_private_directory(path: Path) -> None:
    """Make a directory, and those above it, accessible to its user alone; an existing one is left as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=DIRECTORY_MODE, exist_ok=True)


def make_private(directory: Path) -> None:
    """Take the access of others to a directory, and to all that it holds.

    Links are not followed, and a file that has another name elsewhere is left alone, as is what belongs to somebody else. So is
    a directory in which the user works: only what a run writes there should be in it.
    """
    if any((directory / name).exists() for name in _PROJECT):
        return
    _close_to_others(directory)
    for above, directories, files in os.walk(directory):
        for name in (*directories, *files):
            _close_to_others(Path(above, name))


def _close_to_others(path: Path) -> None:
    try:
        found = path.lstat()
        regular = stat.S_ISREG(found.st_mode) and found.st_nlink == 1
        if (regular or stat.S_ISDIR(found.st_mode)) and found.st_mode & 0o077:
            path.chmod(stat.S_IMODE(found.st_mode) & DIRECTORY_MODE)
    except OSError:
        # It went away, or is not ours: closing the directory above it is enough.
        return
