"""Finding runs: by a path, by a name, or all below a directory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path

from astuner.contract.errors import UsageError
from astuner.runs.inspection.run import MARKS, Report, Run, is_run, refuse_directory

RECORD = Path("launcher_record")
"""Where runs are by default."""


def open_run(name: Path | str, report: Report | None = None) -> Run:
    """Return the run in a directory, or the one of that name in `launcher_record`; raises `UsageError` if there is none."""
    for path in (Path(name), RECORD / name):
        try:
            if is_run(path):
                return Run(path, report)
        except PermissionError as error:
            raise UsageError(f"{path}: cannot be read by this user; change its permissions") from error
    if Path(name).is_dir():
        raise refuse_directory(Path(name))
    names = [str(path.relative_to(RECORD)) for path in list_run_paths(RECORD)]
    close = get_close_matches(str(name), names, n=1)
    known = f" In {RECORD} there are: {', '.join(names)}." if names else ""
    hint = f" Did you mean '{close[0]}'?" if close else known
    raise UsageError(f"{name}: there is no such run, neither as a directory nor in {RECORD}.{hint}")


def list_run_paths(directory: Path, report: Report = lambda _: None) -> Iterator[Path]:
    """Yield the directories of all runs in a directory, its subdirectories included, by name; links to runs too.

    Those that this user may not read, such as another user's, are left out: `report` gets a message about each.
    """
    try:
        if is_run(directory):
            yield directory
            return
        children = sorted(directory.iterdir()) if directory.is_dir() else []
    except PermissionError:
        report(f"{directory}: cannot be read by this user, so what runs are in it is not known; change its permissions")
        return
    for child in children:
        # A link to anything else than a run may lead back to where it is.
        if not child.name.startswith(".") and child.is_dir() and (not child.is_symlink() or os.path.isfile(child / MARKS[0])):
            yield from list_run_paths(child, report)
