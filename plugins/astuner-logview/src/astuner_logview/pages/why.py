"""The page that says what holds a run back."""

from __future__ import annotations

from typing import Any

from astuner_logview.library import Library
from astuner_logview.pages.problems import list_problems
from astuner_logview.pages.run_rows import thin_out
from astuner_logview.parameters import Parameters
from astuner_tools.diagnosis.findings import Finding
from astuner_tools.diagnosis.report import format_change
from astuner_tools.diagnosis.rules import diagnose, list_rules
from astuner_tools.diagnosis.run_record import RunRecord, read_run_record

MOST_POINTS = 100


def show_why(library: Library, parameters: Parameters) -> dict[str, Any]:
    """Return what stands out in a run, the most likely cause first."""
    run = library.find(parameters.run)
    record = read_run_record(run.run)
    return {
        "findings": [
            {**one.to_json(), "change": format_change(one), "curves": _read_curves(record, one)} for one in diagnose(record)
        ],
        "rules": len(list_rules()),
        "steps": len(record.steps),
        "problems": list_problems(run),
    }


def _read_curves(record: RunRecord, finding: Finding) -> dict[str, Any]:
    """Return the curves that show a finding, those of two points or more."""
    curves = {name: record.read(name) for name in finding.metrics}
    return {name: thin_out(curve, MOST_POINTS) for name, curve in curves.items() if len(curve) > 1}
