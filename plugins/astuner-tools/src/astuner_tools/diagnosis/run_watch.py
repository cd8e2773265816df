"""The one line of a diagnosis that a run shows while it trains and at its end."""

from __future__ import annotations

from pathlib import Path

from astuner.runs.inspection.run import Run
from astuner_tools.diagnosis.report import format_line
from astuner_tools.diagnosis.rules import diagnose
from astuner_tools.diagnosis.run_record import read_run_record


def describe_run(directory: Path, name: str) -> str | None:
    """Return the most likely cause that holds a run back, in one line; None if nothing stands out.

    `name` is the directory as it is typed where the run was started.
    """
    findings = diagnose(read_run_record(Run(directory, report=lambda _: None)))
    return format_line(findings[0], name) if findings else None
