"""Removes directories that a program may have filled to do harm.

It imports nothing of astuner, so that the program of a supervisor can use it too.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress


def remove_tree(directory: str | os.PathLike[str]) -> None:
    """Remove a directory and what is in it, of any depth, also what its owner has locked; what cannot go stays."""
    path = os.path.abspath(directory)
    # Not shutil.rmtree: until Python 3.13 it recurses, and keeps a file of this process open for each level.
    for command in (["rm", "-rf"], ["chmod", "-R", "u+rwx"], ["rm", "-rf"]):
        if os.path.islink(path) or not os.path.isdir(path):
            return
        with suppress(OSError):
            subprocess.run([*command, path], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
