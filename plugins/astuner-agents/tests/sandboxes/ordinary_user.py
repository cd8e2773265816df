"""Runs a program as an ordinary user, although root runs the tests and what is needed is in root's own directories."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

NOBODY = 65534


def find_obstacle() -> str | None:
    """Return why no program can be run as an ordinary user who may make namespaces; None if one can."""
    if os.geteuid() != 0:
        return "root does not run the tests, so all of them run as an ordinary user"
    if shutil.which("bwrap") is None or shutil.which("setpriv") is None:
        return "it needs the programs bwrap and setpriv"
    inner = ["bwrap", "--unshare-user", "--unshare-pid", "--unshare-net", "--ro-bind", "/", "/", "--proc", "/proc", "/bin/true"]
    tried = run_as_nobody(inner, shown=[])
    return f"ordinary users may make no namespaces here: {tried.stderr.strip()}" if tried.returncode else None


def run_as_nobody(command: Sequence[str], shown: Sequence[Path]) -> subprocess.CompletedProcess[str]:
    """Run a program that may read `shown` and what everyone may read, with a /tmp and a home directory of its own."""
    words = ["bwrap", "--dev-bind", "/", "/", "--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    paths = sorted({path.resolve() for path in shown} | {path.absolute() for path in shown})
    hidden = {Path("/tmp")} | {one for path in paths if (one := _find_hidden(path)) is not None}
    for one in sorted(hidden):
        words += ["--perms", "1777" if one == Path("/tmp") else "0755", "--tmpfs", str(one)]
    for path in paths:
        above = [one for one in path.parents if any(one.is_relative_to(top) and one != top for top in hidden)]
        for parent in sorted(above):
            words += ["--perms", "0755", "--dir", str(parent)]
        if any(path.is_relative_to(top) for top in hidden):
            words += ["--ro-bind", str(path), str(path)]
    words += ["--perms", "1777", "--dir", "/tmp/own", "--setenv", "HOME", "/tmp/own", "--setenv", "TMPDIR", "/tmp/own", "--"]
    words += ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--inh-caps=-all", *command]
    return subprocess.run(words, capture_output=True, text=True, errors="replace", check=False, cwd="/")


def list_needed() -> Iterator[Path]:
    """Yield where this Python, the installed packages and their sources are."""
    for path in (sys.prefix, sys.base_prefix, os.path.dirname(os.path.realpath(sys.executable)), *sys.path):
        if path and Path(path).exists():
            yield Path(path)


def _find_hidden(path: Path) -> Path | None:
    """Return the first directory on the way to a path that others may not enter."""
    for parent in reversed(path.parents):
        if not parent.stat().st_mode & stat.S_IXOTH:
            return parent
    return None
