"""What `run.json` holds of a start."""

from __future__ import annotations

import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from astuner.runs.driver.plugins_in_use import list_plugins_in_use
from astuner.settings.config.secrets import redact_command
from astuner.settings.planning.plan import Plan


def collect_run_facts(plan: Plan) -> dict[str, Any]:
    """Return what `run.json` holds of a start, apart from what it was made from (`driver.sources`)."""
    config = plan.loaded.config
    return {
        "project_name": config.project_name,
        "experiment_name": config.experiment_name,
        "backbone": plan.backbone.candidate.name,
        "conf": str(plan.loaded.path),
        "seed": config.seed,
        "versions": {"astuner-core": version("astuner-core"), "python": platform.python_version()},
        "plugins": list_plugins_in_use(plan),
        "git": _read_git_state(plan.loaded.path.parent),
        "command": list(map(plan.loaded.secrets.hide, redact_command(sys.argv))),
    }


def _read_git_state(directory: Path) -> dict[str, Any] | None:
    """Return commit and cleanliness of the directory's checkout, or None if it is not one."""
    command = ["git", "-C", str(directory), "status", "--porcelain=v2", "--branch"]
    try:
        lines = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.splitlines()
    except (OSError, subprocess.SubprocessError):
        return None
    commit = next((line.split()[-1] for line in lines if line.startswith("# branch.oid")), None)
    return {"commit": commit, "clean": not any(not line.startswith("#") for line in lines)}
