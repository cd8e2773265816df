"""Whether the targets of entry points can be imported, tried in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from attrs import frozen

PROGRAM = Path(__file__).with_name("import_program.py")
LIMIT_S = 120.0
"""For all targets together, on a machine that is as busy as it likes."""


@frozen(kw_only=True)
class ImportResult:
    """What importing one target did."""

    error: str = ""
    """Empty if the target is there."""
    heavy: tuple[str, ...] = ()
    """Modules of a given list that were imported with it."""


def try_imports(targets: Sequence[str], heavy: Sequence[str] = (), *, limit_s: float = LIMIT_S) -> list[ImportResult]:
    """Import every `module:attribute` in a fresh process, and return what came of each.

    One that ends the process, or is not done after `limit_s`, has that as its error; the others are tried in the next process.
    """
    results: list[ImportResult] = []
    while len(results) < len(targets):
        rows, ending = _run(targets[len(results) :], heavy, limit_s)
        results += [ImportResult(error=error, heavy=tuple(brought)) for error, brought in rows]
        if len(results) < len(targets):
            results.append(ImportResult(error=ending))
    return results


def _run(targets: Sequence[str], heavy: Sequence[str], limit_s: float) -> tuple[list[tuple[str, list[str]]], str]:
    """Return the rows of a process, and how it ended if that was before the last one."""
    command = [sys.executable, "-P", str(PROGRAM), json.dumps(heavy), json.dumps(targets)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        done = subprocess.run(command, capture_output=True, timeout=limit_s, env=environment, check=False)
    except subprocess.TimeoutExpired as error:
        written, ending = error.stdout or b"", f"importing it takes more than {limit_s:g} s"
    else:
        written, ending = done.stdout, f"importing it ends the process with exit code {done.returncode}"
    return [json.loads(line) for line in written.splitlines(keepends=True) if line.endswith(b"\n")], ending
