"""The page that says what holds a run back."""

from __future__ import annotations

from typing import Any

from astuner_logview.library import Library
from astuner_logview.pages.problems import list_problems
from astuner_logview.parameters import Parameters
from astuner_tools.diagnosis.report import format_change
from astuner_tools.diagnosis.rules import diagnose, list_rules
from astuner_tools.diagnosis.run_record import read_run_record


def show_why(library: Library, parameters: Parameters) -> dict[str, Any]:
    """Return what stands out in a run, the most likely cause first."""
    run = library.find(parameters.run)
    record = read_run_record(run.run)
    return {
        "findings": [{**one.to_json(), "change": format_change(one)} for one in diagnose(record)],
        "rules": len(list_rules()),
        "steps": len(record.steps),
        "problems": list_problems(run),
    }
