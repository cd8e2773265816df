"""Removes directories that a program may have filled in bad faith.

It imports nothing of astuner, so that the program of a cell can use it too.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress

FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def remove_tree(directory: str | os.PathLike[str]) -> None:
    """Remove a directory and what is in it, of any depth, also what its owner has protected; what cannot go stays.

    One directory is open at a time, and reached from the one above it or below it: nothing is recursive, and no path is too
    long for the system.
    """
    with suppress(OSError):
        _empty(_open(os.fspath(directory), None))
        os.rmdir(directory)


def _empty(folder: int) -> None:
    """Remove what is in an open directory, and close it."""
    levels = [("", os.fstat(folder), _remove_files(folder))]
    try:
        while True:
            name, _, waiting = levels[-1]
            if waiting:
                inner = waiting.pop()
                with suppress(OSError):
                    folder = _replace(folder, _open(inner, folder))
                    levels.append((inner, os.fstat(folder), _remove_files(folder)))
            elif len(levels) == 1:
                return
            else:
                levels.pop()
                folder = _replace(folder, os.open("..", FLAGS, dir_fd=folder))
                if not os.path.samestat(os.fstat(folder), levels[-1][1]):
                    # Something still runs, and moves directories.
                    return
                with suppress(OSError):
                    os.rmdir(name, dir_fd=folder)
    finally:
        os.close(folder)


def _replace(old: int, new: int) -> int:
    os.close(old)
    return new


def _open(name: str, folder: int | None) -> int:
    """Open a directory; its owner may have kept even himself from reading it."""
    if stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode):
        with suppress(OSError):
            os.chmod(name, 0o700, dir_fd=folder)
    return os.open(name, FLAGS, dir_fd=folder)


def _remove_files(folder: int) -> list[str]:
    """Remove the files and links of a directory; return the names of the directories in it."""
    folders: list[str] = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in list(entries):
            with suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
                else:
                    os.unlink(entry.name, dir_fd=folder)
    return folders
