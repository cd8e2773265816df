"""The page of all runs."""

from __future__ import annotations

from typing import Any

from astuner_logview.library import Library
from astuner_logview.pages.run_rows import describe_run
from astuner_logview.parameters import Parameters


def list_runs(library: Library, parameters: Parameters) -> dict[str, Any]:
    """Return a row for each run, newest first."""
    rows, problems = [], []
    for run in library.list_runs():
        try:
            rows.append(describe_run(library, run))
        except Exception as error:  # noqa: BLE001 - one foreign directory must not hide the other runs
            problems.append(f"{run.path}: cannot be shown: {type(error).__name__}: {error}")
        problems += run.problems
    rows.sort(key=lambda row: (row["attempt_started"] or row["updated"] or "", row["id"]), reverse=True)
    return {"roots": [str(root) for root in library.roots], "runs": rows, "problems": [*library.problems, *problems]}
